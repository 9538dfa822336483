"""The bytes of a producer snapshot: Kafka's format, version 1, with Tidelog's own part behind it.

====================== =====================================================================
version, CRC-32C       int16, uint32; the CRC covers everything behind itself
producers              int32 count, then for each: producer id int64, epoch int16, last sequence int32,
                       last offset int64, offset delta int32, timestamp int64, coordinator epoch int32,
                       first offset of its transaction int64 (-1)
remembered batches     int32 count, then for each, oldest first: producer id int64, last sequence int32,
                       last offset int64, offset delta int32, append time int64 (-1)
====================== =====================================================================

Kafka's part holds one batch per producer, so a Kafka broker that restarts refuses the retry of any but the
newest of the five it had remembered. The second part, which Kafka's readers do not look at, holds them all.
Where it is missing, the last batch is what there is.
"""

from struct import Struct, error

from crc32c import crc32c

from tidelog.errors import CorruptBatch
from tidelog.log.producers import NO_OFFSET, SEQUENCE_MASK, Producer, ProducerStates, Written

VERSION = 1
NO_SEQUENCE = -1
_NO_COORDINATOR = -1

_START = Struct(">hI")
_COUNT = Struct(">i")
_PRODUCER = Struct(">qhiqiqiq")
_BATCH = Struct(">qiqiq")


def encode(states: ProducerStates) -> bytes:
    producers = bytearray()
    batches = bytearray()
    remembered = 0
    for producer_id, producer in states:
        last = producer.last
        sequence, offset, delta = NO_SEQUENCE, NO_OFFSET, 0
        if last is not None:
            sequence, offset = last.last_sequence, last.last_offset
            delta = offset - last.base_offset
        producers += _PRODUCER.pack(
            producer_id, producer.epoch, sequence, offset, delta, producer.seen_ms, _NO_COORDINATOR, NO_OFFSET
        )
        remembered += len(producer.batches)
        for _, last_sequence, base_offset, last_offset, append_time_ms in producer.batches:
            batches += _BATCH.pack(
                producer_id, last_sequence, last_offset, last_offset - base_offset, append_time_ms
            )
    body = _COUNT.pack(len(states)) + producers + _COUNT.pack(remembered) + batches
    return _START.pack(VERSION, crc32c(body)) + body


def decode(data: bytes) -> dict[int, Producer]:
    """Raises :class:`CorruptBatch` when this is not a whole snapshot."""
    if len(data) < _START.size + _COUNT.size:
        raise CorruptBatch(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc = _START.unpack_from(data)
    if version != VERSION:
        raise CorruptBatch(f"producer snapshot version {version}, only {VERSION} is known")
    if crc32c(data[_START.size :]) != crc:
        raise CorruptBatch("the CRC of the producer snapshot does not match")
    try:
        producers, position = _producers(data)
        if position < len(data):
            _replace_batches(data, position, producers)
    except (error, KeyError):
        raise CorruptBatch("the producer snapshot is cut short") from None
    return producers


def _producers(data: bytes) -> tuple[dict[int, Producer], int]:
    """Those in Kafka's part, with one batch each, and where that part ends."""
    position = _START.size
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    producers = {}
    for _ in range(count):
        producer_id, epoch, sequence, offset, delta, timestamp, *_ = _PRODUCER.unpack_from(data, position)
        producer = producers[producer_id] = Producer(epoch, timestamp)
        if sequence != NO_SEQUENCE:
            producer.add(_written(sequence, offset, delta, -1))
        position += _PRODUCER.size
    return producers, position


def _replace_batches(data: bytes, position: int, producers: dict[int, Producer]) -> None:
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    for producer in producers.values():
        producer.batches.clear()
    for _ in range(count):
        producer_id, sequence, offset, delta, append_time_ms = _BATCH.unpack_from(data, position)
        producers[producer_id].add(_written(sequence, offset, delta, append_time_ms))
        position += _BATCH.size


def _written(last_sequence: int, last_offset: int, delta: int, time_ms: int) -> Written:
    first_sequence = (last_sequence - delta) & SEQUENCE_MASK
    return first_sequence, last_sequence, last_offset - delta, last_offset, time_ms
