"""Fetched bytes to record batches of Arrow: which of Kafka's batches count, opened and checked.

Owns the rules about whole batches: the CRC, control batches, aborted transactions, compression, and the rows
per Arrow batch. No Python runs per record. For plain batches it hardly runs per batch: the loops process a
whole response at once, and only its CRCs are checked one by one.
"""

import ctypes
from collections.abc import Iterator, Sequence

import pyarrow as pa
from crc32c import crc32c

from tidelog.client.messages import FetchedPartition
from tidelog.errors import CorruptBatch
from tidelog.protocol import batch as layout
from tidelog.protocol.records import ControlType, control_type, decode_batch
from tidelog.spark.kernel import slots as s
from tidelog.spark.kernel.columns import TABLE_ROWS, BrokenRecords, ColumnBuilder, Table
from tidelog.spark.reading.inflating import FULL_BYTES, Inflater
from tidelog.spark.reading.loss import ReadFailure

ROWS_FULL = 64_000
"""The number of rows to gather from small batches."""

_SPECIAL = layout.CODEC_MASK | layout.TRANSACTIONAL_MASK | layout.CONTROL_MASK

_PROBLEMS = {
    s.BAD_MAGIC: "is in a format older than Kafka 0.11, which is not supported",
    s.BAD_SIZE: "has an impossible size",
}


class CorruptRecords(ReadFailure):
    """A broker served invalid bytes; the message says where."""


class BatchDecoder:
    """Decodes the responses for one range of one partition, in order."""

    def __init__(
        self,
        schema: pa.Schema,
        topic: str,
        partition: int,
        start_offset: int,
        end_offset: int,
        check_crcs: bool,
    ) -> None:
        self._name = f"{topic}-{partition}"
        self._builder = ColumnBuilder(schema, topic, partition)
        self._start_offset = start_offset
        self._end_offset = end_offset  # exclusive
        self._check_crcs = check_crcs
        self._tables: list[Table] = []
        self._inflater = Inflater()
        self._gathered = Table()

    def outline(self, response: FetchedPartition) -> int | None:
        """Add a response; returns the offset at which to continue, or None if it had no whole batch."""
        records = response.records
        self._response = response
        self._tables = []
        if not records:
            return None
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(records))
        position = 0
        while True:
            table = Table()
            stop = table.outline(self._address, len(records), position)
            if table.count:
                self._tables.append(table)
                position = table.position
            if stop != s.TABLE_FULL:
                break
        if not self._tables:
            if stop in _PROBLEMS:
                raise CorruptRecords(f"A batch of {self._name} {_PROBLEMS[stop]}.")
            return None
        # An error after whole batches will be at the beginning of a later response.
        last = self._tables[-1]
        return last.row(last.count - 1)[s.LAST_OFFSET] + 1

    def decode(self) -> Iterator[pa.RecordBatch]:
        """The rows of the response that was added last."""
        aborted = _Aborted(self._response.aborted)
        for table in self._tables:
            if self._check_crcs:
                self._verify(table)
            if table.kinds & _SPECIAL:
                yield from self._decode_special(table, aborted)
            else:
                size = table.position - table.row(0)[s.POSITION]
                yield from self._built(table, table.records, size)

    def _verify(self, table: Table) -> None:
        records = self._response.records
        positions, sizes, crcs = (table.column(one) for one in (s.POSITION, s.SIZE, s.CRC))
        for position, size, crc in zip(positions, sizes, crcs, strict=True):
            if crc32c(records[position + layout.CRC_FROM : position + size]) != crc:
                raise self._corrupt(layout.parse_prefix(records, position)[0], "the CRC does not match")

    def _built(self, table: Table, records: int, size: int) -> Iterator[pa.RecordBatch]:
        try:
            # A record takes seven bytes at least: a larger count is false, and not trusted.
            rows_max = min(records, size // 7)
            batch = self._builder.build(table, rows_max, size, self._start_offset, self._end_offset)
        except BrokenRecords as broken:
            offset = table.row(broken.batch)[s.BASE_OFFSET]
            raise self._corrupt(offset, "its records cannot be read") from None
        if batch.num_rows:
            yield batch

    def _decode_special(self, table: Table, aborted: "_Aborted") -> Iterator[pa.RecordBatch]:
        """Compressed and transactional batches: chosen and opened one by one, then decoded together."""
        gathered: list[Sequence[int]] = []
        records = size = 0
        for index in range(table.count):
            row = table.row(index)
            if not row[s.COUNT] or not self._counts(row, aborted):
                continue
            if gathered and (records >= ROWS_FULL or size >= FULL_BYTES or len(gathered) == TABLE_ROWS):
                yield from self._flush(gathered, records, size)
                records = size = 0
            codec = row[s.ATTRIBUTES] & layout.CODEC_MASK
            if codec:
                opened = self._inflate(codec, row)
                if opened is None:
                    yield from self._flush(gathered, records, size)
                    records = size = 0
                    opened = self._inflate(codec, row)
                if opened is None:
                    raise self._corrupt(row[s.BASE_OFFSET], "there is no room for it")
                row[s.PAYLOAD_START], row[s.PAYLOAD_END] = opened
            gathered.append(row)
            records += row[s.COUNT]
            size += row[s.PAYLOAD_END] - row[s.PAYLOAD_START]
        if gathered:
            yield from self._flush(gathered, records, size)

    def _flush(self, gathered: list[Sequence[int]], records: int, size: int) -> Iterator[pa.RecordBatch]:
        self._gathered.put(gathered)
        gathered.clear()
        yield from self._built(self._gathered, records, size)
        self._inflater.clear()

    def _inflate(self, codec: int, row: Sequence[int]) -> tuple[int, int] | None:
        start = row[s.POSITION] + layout.HEADER_SIZE
        payload = self._response.records[start : row[s.POSITION] + row[s.SIZE]]
        try:
            return self._inflater.inflate(codec, payload)
        except CorruptBatch as corrupt:
            raise self._corrupt(row[s.BASE_OFFSET], corrupt.message) from None

    def _counts(self, row: Sequence[int], aborted: "_Aborted") -> bool:
        """Whether the batch has records for a reader of this range."""
        attributes, producer_id = row[s.ATTRIBUTES], row[s.PRODUCER_ID]
        aborted.reach(row[s.LAST_OFFSET])
        if attributes & layout.CONTROL_MASK:
            if producer_id in aborted.producers and self._is_abort(row):
                aborted.producers.discard(producer_id)
            return False
        if attributes & layout.TRANSACTIONAL_MASK and producer_id in aborted.producers:
            return False
        return row[s.LAST_OFFSET] >= self._start_offset and row[s.BASE_OFFSET] < self._end_offset

    def _is_abort(self, row: Sequence[int]) -> bool:
        position = row[s.POSITION]
        marker = next(decode_batch(self._response.records[position : position + row[s.SIZE]]), None)
        return marker is not None and control_type(marker.key) == ControlType.ABORT

    def _corrupt(self, offset: int, reason: str) -> CorruptRecords:
        return CorruptRecords(f"The batch at offset {offset} of {self._name} is damaged: {reason}.")


class _Aborted:
    """Whose transactional batches do not count, in the order of a response's batches.

    A broker names the aborted transactions that reach into its response, so nothing is carried over.
    """

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._pending = sorted(transactions, key=lambda one: one[1], reverse=True)
        self.producers: set[int] = set()

    def reach(self, last_offset: int) -> None:
        while self._pending and self._pending[-1][1] <= last_offset:
            self.producers.add(self._pending.pop()[0])
