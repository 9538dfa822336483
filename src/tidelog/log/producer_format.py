"""The bytes of a producer snapshot: Kafka's format, version 1, followed by Tidelog's own part.

====================== =====================================================================
version, CRC-32C       int16, uint32; the CRC covers everything after itself
producers              int32 count, then for each: producer id int64, epoch int16, last sequence int32,
                       last offset int64, offset delta int32, timestamp int64, coordinator epoch int32,
                       first offset of its open transaction int64 (-1)
remembered batches     int32 count, then for each, oldest first: producer id int64, last sequence int32,
                       last offset int64, offset delta int32, append time int64 (-1)
ended transactions     int32 count, then for each, in the order of their markers: first offset int64,
                       offset of the marker int64
coordinator offsets    int32 count, then for each: producer id int64, the newest coordinator offset of
                       a marker of its coordinator epoch int64
====================== =====================================================================

Kafka's part holds one batch per producer, so a Kafka broker that restarts refuses the retry of all but the
newest of the five remembered batches, and it forgets which markers were not committed yet. The other parts,
which Kafka's readers ignore, hold them all. If they are missing, only the last batch is known.
"""

from struct import Struct, error
from typing import NamedTuple

from crc32c import crc32c

from tidelog.errors import CorruptBatch
from tidelog.log.open_transactions import EndedTransaction, OpenTransactions
from tidelog.log.producers import NO_OFFSET, SEQUENCE_MASK, ProducerState, ProducerStates, Written

VERSION = 1
NO_SEQUENCE = -1

_START = Struct(">hI")
_COUNT = Struct(">i")
_PRODUCER = Struct(">qhiqiqiq")
_BATCH = Struct(">qiqiq")
_ENDED = Struct(">qq")
_TOLD = Struct(">qq")


class Snapshot(NamedTuple):
    producers: dict[int, ProducerState]
    transactions: OpenTransactions


def encode(states: ProducerStates) -> bytes:
    producers = bytearray()
    batches = bytearray()
    remembered = 0
    in_transaction = states.transactions.open
    for producer_id, producer in states:
        last = producer.last
        sequence, offset, delta = NO_SEQUENCE, NO_OFFSET, 0
        if last is not None:
            sequence, offset = last.last_sequence, last.last_offset
            delta = offset - last.base_offset
        producers += _PRODUCER.pack(
            producer_id, producer.epoch, sequence, offset, delta, producer.seen_ms,
            producer.coordinator_epoch, in_transaction.get(producer_id, NO_OFFSET),
        )  # fmt: skip
        remembered += len(producer.batches)
        for _, last_sequence, base_offset, last_offset, append_time_ms in producer.batches:
            batches += _BATCH.pack(
                producer_id, last_sequence, last_offset, last_offset - base_offset, append_time_ms
            )
    ended = states.transactions.ended
    body = _COUNT.pack(len(states)) + producers + _COUNT.pack(remembered) + batches
    told = [(each, producer.coordinator_offset) for each, producer in states if _is_told(producer)]
    if ended or told:
        body += _COUNT.pack(len(ended)) + b"".join(_ENDED.pack(*each) for each in ended)
    if told:
        body += _COUNT.pack(len(told)) + b"".join(_TOLD.pack(*each) for each in told)
    return _START.pack(VERSION, crc32c(body)) + body


def _is_told(producer: ProducerState) -> bool:
    return producer.coordinator_offset != NO_OFFSET


def decode(data: bytes) -> Snapshot:
    """Raises :class:`CorruptBatch` if this is not a complete snapshot."""
    if len(data) < _START.size + _COUNT.size:
        raise CorruptBatch(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc = _START.unpack_from(data)
    if version != VERSION:
        raise CorruptBatch(f"producer snapshot version {version}, only {VERSION} is known")
    if crc32c(data[_START.size :]) != crc:
        raise CorruptBatch("the CRC of the producer snapshot does not match")
    try:
        producers, in_transaction, position = _producers(data)
        if position < len(data):
            position = _replace_batches(data, position, producers)
        ended = _ended(data, position) if position < len(data) else []
        if position < len(data):
            _take_told(data, position + _COUNT.size + len(ended) * _ENDED.size, producers)
    except (error, KeyError):
        raise CorruptBatch("the producer snapshot is cut short") from None
    transactions = OpenTransactions()
    transactions.restore(in_transaction, ended)
    return Snapshot(producers, transactions)


def _producers(data: bytes) -> tuple[dict[int, ProducerState], dict[int, int], int]:
    """Kafka's part: producers with one batch each, the start of their transactions, its end."""
    position = _START.size
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    producers = {}
    in_transaction = {}
    for _ in range(count):
        producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset = (
            _PRODUCER.unpack_from(data, position)
        )
        producer = producers[producer_id] = ProducerState(epoch, timestamp)
        producer.coordinator_epoch = coordinator_epoch
        if first_offset != NO_OFFSET:
            in_transaction[producer_id] = first_offset
        if sequence != NO_SEQUENCE:
            producer.add(_written(sequence, offset, delta, -1))
        position += _PRODUCER.size
    return producers, in_transaction, position


def _replace_batches(data: bytes, position: int, producers: dict[int, ProducerState]) -> int:
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    for producer in producers.values():
        producer.batches.clear()
    for _ in range(count):
        producer_id, sequence, offset, delta, append_time_ms = _BATCH.unpack_from(data, position)
        producers[producer_id].add(_written(sequence, offset, delta, append_time_ms))
        position += _BATCH.size
    return position


def _ended(data: bytes, position: int) -> list[EndedTransaction]:
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    return [
        EndedTransaction._make(_ENDED.unpack_from(data, position + number * _ENDED.size))
        for number in range(count)
    ]


def _take_told(data: bytes, position: int, producers: dict[int, ProducerState]) -> None:
    if position >= len(data):
        return
    (count,) = _COUNT.unpack_from(data, position)
    position += _COUNT.size
    for number in range(count):
        producer_id, offset = _TOLD.unpack_from(data, position + number * _TOLD.size)
        producers[producer_id].coordinator_offset = offset


def _written(last_sequence: int, last_offset: int, delta: int, time_ms: int) -> Written:
    first_sequence = (last_sequence - delta) & SEQUENCE_MASK
    return first_sequence, last_sequence, last_offset - delta, last_offset, time_ms
