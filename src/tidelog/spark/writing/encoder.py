"""Open batches in one arena: filled by the kernel, finished here, freed when they were sent.

Owns the arena, the headers, compression and the sequence numbers that make a retried batch harmless. Knows
nothing of brokers: finished batches are taken with :meth:`Encoder.take_finished` and returned with
:meth:`Encoder.release`.
"""

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tidelog.invariant import invariant
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import HEADER_SIZE, TRANSACTIONAL_MASK, Buffer
from tidelog.protocol.codecs import Codec, compress
from tidelog.spark.writing import kernel
from tidelog.spark.writing.kernel import Chunks, Rows, Slots
from tidelog.spark.writing.places import SLACK_BYTES

STICKY_BYTES = 16 << 10
"""Records without a key change the partition after that many bytes: the Java client's batch size."""

_SEQUENCES = 1 << 31
_VARINTS_BYTES = 64  # more than the lengths of one cell take


NULL_TOPIC = "A row has a null in column 'topic', and there is no option 'topic'."


class Unwritable(ValueError):
    """A row that cannot be written; the message says which rule it breaks."""


@dataclass(frozen=True, slots=True)
class Producer:
    """The producer of these batches; id -1: none, which the broker does not deduplicate."""

    producer_id: int = -1
    epoch: int = -1
    transactional: bool = False


class FinishedBatch(NamedTuple):
    """A batch that is ready to be sent, and its room."""

    slot: int
    chunk: int  # -1: it is outside the arena
    records: int
    data: Buffer


class Encoder:
    """All open batches of one task."""

    def __init__(
        self, producer: Producer, chunk_bytes: int, memory_bytes: int, codec: int = Codec.NONE
    ) -> None:
        self._producer = producer
        self._codec = codec
        none = np.zeros(0, np.int64)
        self._slots = Slots(none, none, none, none, none)
        self._chunks = Chunks(chunk_bytes, max(memory_bytes // chunk_bytes, 2))
        self._next_sequence: Counter[int] = Counter()  # by slot
        self._ready: list[FinishedBatch] = []

    def add_topic(self, partitions: int) -> int:
        """Room for one more topic; returns the number of its first slot."""
        slots = self._slots
        first = len(slots.open_chunk)
        # A random start: tasks that write a few records each would otherwise all begin with partition 0.
        self._slots = Slots(
            np.append(slots.first, first),
            np.append(slots.counts, partitions),
            np.append(slots.sticky, random.randrange(partitions)),
            np.append(slots.sticky_bytes, 0),
            np.append(slots.open_chunk, np.full(partitions, -1, np.int64)),
        )
        return first

    def assign(self, rows: Rows, count: int) -> Any:
        """The slot of each row; :class:`Unwritable` says why one has none."""
        chosen = np.empty(count, np.int64)
        if kernel.assign(rows, self._slots, STICKY_BYTES, chosen):
            row = int(np.argmax(chosen < 0))
            if chosen[row] == -kernel.NO_TOPIC:
                raise Unwritable(NULL_TOPIC)
            topic = int(rows.topics[row]) if rows.topics.size else 0
            raise Unwritable(
                f"A row wants partition {int(rows.partitions[row])} of a topic that has "
                f"{int(self._slots.counts[topic])}."
            )
        return chosen

    def fill(self, rows: Rows, chosen: Any, start: int, now_ms: int) -> int:
        """Encode from row ``start`` on; returns the first row that found no room, or the number of rows."""
        row, count = start, len(chosen)
        while row < count:
            row, reason = kernel.fill(rows, chosen, row, count, self._slots.open_chunk, self._chunks, now_ms)
            if reason == kernel.HEADER_WITHOUT_KEY:
                raise Unwritable("A header of a row has no key.")
            if reason == kernel.NO_ROOM:
                break
            if reason == kernel.TOO_LARGE:
                self._encode_alone(rows, chosen, row, now_ms)
                row += 1
        return row

    def finish_all(self) -> None:
        """Finish every open batch, however small."""
        for slot in np.flatnonzero(self._slots.open_chunk >= 0):
            self._seal(int(slot))

    def take_finished(self) -> list[FinishedBatch]:
        """Batches finished since the last call, in the order of each partition, ready to be sent."""
        self._finish_sealed()
        taken, self._ready = self._ready, []
        return taken

    def release(self, sealed: FinishedBatch) -> None:
        """Its records are on a broker: the room is free."""
        if sealed.chunk >= 0:
            self._chunks.free[self._chunks.free_count] = sealed.chunk
            self._chunks.free_count += 1

    def _seal(self, slot: int) -> None:
        chunks = self._chunks
        chunks.sealed[chunks.sealed_count] = self._slots.open_chunk[slot]
        chunks.sealed_count += 1
        self._slots.open_chunk[slot] = -1

    def _encode_alone(self, rows: Rows, chosen: Any, row: int, now_ms: int) -> None:
        """A record larger than a chunk gets a batch of its own size, after those of its partition."""
        slot = int(chosen[row])
        if self._slots.open_chunk[slot] >= 0:
            self._seal(slot)
        self._finish_sealed()
        size = _room_for(rows, row)
        alone = Chunks(size, 1)
        open_chunk = np.full(len(self._slots.open_chunk), -1, np.int64)
        _, reason = kernel.fill(rows, chosen, row, row + 1, open_chunk, alone, now_ms)
        invariant(reason == kernel.DONE, "a record does not fit into the room made for it", reason)
        self._ready.append(self._finished(alone, 0)._replace(chunk=-1))

    def _finish_sealed(self) -> None:
        chunks = self._chunks
        self._ready += [self._finished(chunks, int(chunk)) for chunk in chunks.sealed[: chunks.sealed_count]]
        chunks.sealed_count = 0

    def _finished(self, chunks: Chunks, chunk: int) -> FinishedBatch:
        """Adds header, checksum and the producer's sequence."""
        slot, count = int(chunks.slot[chunk]), int(chunks.count[chunk])
        start = chunk * chunks.chunk_bytes
        data = memoryview(chunks.arena)[start : start + int(chunks.used[chunk])]
        fields = {
            "base_offset": 0,
            "last_offset_delta": count - 1,
            "count": count,
            "base_timestamp": int(chunks.base_timestamp[chunk]),
            "max_timestamp": int(chunks.max_timestamp[chunk]),
            "attributes": self._codec | (TRANSACTIONAL_MASK if self._producer.transactional else 0),
            "producer_id": self._producer.producer_id,
            "producer_epoch": self._producer.epoch,
            "base_sequence": self._sequence(slot, count),
        }
        if self._codec:
            packed = batches.build(compress(self._codec, data[HEADER_SIZE:]), **fields)
            return FinishedBatch(slot, chunk, count, packed)
        batches.write_header(data, len(data), **fields)
        return FinishedBatch(slot, chunk, count, data)

    def _sequence(self, slot: int, count: int) -> int:
        if self._producer.producer_id < 0:
            return -1
        sequence = self._next_sequence[slot]
        self._next_sequence[slot] = (sequence + count) % _SEQUENCES
        return sequence


def _room_for(rows: Rows, row: int) -> int:
    """A batch size that surely holds this record."""
    columns = [(rows.key, row, row + 1), (rows.value, row, row + 1)]
    if rows.headers.offsets.size:
        first, last = rows.headers.offsets[row], rows.headers.offsets[row + 1]
        columns += [(rows.headers.keys, first, last), (rows.headers.values, first, last)]
    size = HEADER_SIZE + SLACK_BYTES + _VARINTS_BYTES
    for column, first, last in columns:
        if column.offsets.size:
            size += int(column.offsets[last] - column.offsets[first]) + _VARINTS_BYTES * int(last - first)
    return size
