"""What compaction leaves of one batch: the batch itself, a smaller one, an empty one, or nothing.

Owns the rules of ``cleanup.policy=compact``, as in Kafka, for one batch at a time: bytes in, bytes out. Knows
no files. Offsets, leader epoch and producer sequence of what stays never change, so readers, followers and
producers see the same log with records missing.

A record stays if it is the newest of its key and either has a value or is a tombstone before its delete
horizon. The delete horizon is written into the batch when a pass first finds the tombstone clean: a reader
that read an older value before that pass has ``delete.retention.ms`` to reach the tombstone. The same holds
for the marker of a transaction without remaining records. Records of aborted transactions never stay.
"""

import logging
from collections.abc import Collection, Mapping

from tidelog.config.kinds import LONG_MAX
from tidelog.errors import CorruptBatch
from tidelog.log.cleaner_map import KeyOffsets
from tidelog.log.cleaner_transactions import CleanedTransactions
from tidelog.log.producers import ANY_OFFSET, LastWritten
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader, Buffer
from tidelog.protocol.codecs import compress
from tidelog.protocol.markers import decode_marker
from tidelog.protocol.records import RawRecord, append_varint, payload_of, scan, varint_size
from tidelog.types import NO_EPOCH

_logger = logging.getLogger(__name__)

HORIZON_MAX_MS = 1 << 62  # "never"; the timestamps of records are stored relative to the horizon
_OLDEST_TIMESTAMP, _NEWEST_TIMESTAMP = -(1 << 63), LONG_MAX

Opened = tuple[Buffer, list[RawRecord]]
"""The payload of a batch, and where its records are."""


def open_batch(batch: memoryview, header: BatchHeader) -> Opened | None:
    """The records of a batch; None for one that compaction must neither read nor change.

    The broker accepts most batches unopened, so a producer can have written an intact batch without readable
    records. It does no harm; stopping at it would end the compaction of this log for good.
    """
    try:
        payload = payload_of(batch, header)
        found = list(scan(payload, header.count))
        _check_offsets(header, found)
        _check_timestamps(header, found)
    except CorruptBatch as error:
        _logger.warning("the batch at offset %d is not compacted: %s", header.base_offset, error.message)
        return None
    return payload, found


def _check_offsets(header: BatchHeader, found: list[RawRecord]) -> None:
    """A record that claims an offset outside its batch would supersede newer records."""
    previous = -1
    for raw in found:
        if not previous < raw.offset_delta <= header.last_offset_delta:
            raise CorruptBatch(f"offset delta {raw.offset_delta} follows {previous}")
        previous = raw.offset_delta


def _check_timestamps(header: BatchHeader, found: list[RawRecord]) -> None:
    """A sum that does not fit into a timestamp cannot be written again."""
    if found:
        oldest = header.base_timestamp + min(raw.timestamp_delta for raw in found)
        newest = header.base_timestamp + max(raw.timestamp_delta for raw in found)
        if not _OLDEST_TIMESTAMP <= oldest <= newest <= _NEWEST_TIMESTAMP:
            raise CorruptBatch(f"timestamps {oldest} to {newest}")


class BatchFilter:
    """The rules and the state of one pass. Batches must come in log order."""

    __slots__ = (
        "_delete_retention_ms",
        "_end_offset",
        "_epoch",
        "_epoch_start",
        "_last_written",
        "_newest",
        "_now_ms",
        "_tombstones_stay",
        "_transactions",
        "records_dropped",
        "records_kept",
    )

    def __init__(
        self,
        newest: KeyOffsets,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        last_written: Mapping[int, LastWritten],
        transactions: CleanedTransactions,
    ) -> None:
        """``newest`` knows every key below ``end_offset`` (exclusive, at a batch boundary)."""
        self._newest = newest
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._last_written = last_written
        self._transactions = transactions
        # An unopened batch may hold an older value of any key, which a later tombstone must continue to hide.
        self._tombstones_stay = False
        self._epoch: int = NO_EPOCH  # Of the newest batch so far,
        self._epoch_start = 0  # and where the first batch with it begins.
        self.records_kept = 0
        self.records_dropped = 0

    def apply(self, batch: memoryview, header: BatchHeader, traces: Collection[int]) -> Buffer | None:
        """What replaces an intact batch; None if nothing does.

        A batch that ends at one of ``traces`` (exclusive end offsets) stays even without records.
        """
        if header.leader_epoch > self._epoch:
            self._epoch, self._epoch_start = header.leader_epoch, header.base_offset
        if header.is_control:
            return self._apply_to_marker(batch, header, traces)
        if self._transactions.is_aborted(header):
            self.records_dropped += header.count
            return _emptied(header) if self._must_leave_a_trace(header, traces) else None
        if header.base_offset >= self._end_offset:
            # The keys here are unknown. A tombstone is not clean yet, either: a horizon set now could pass
            # before the older values of its key are gone.
            self.records_kept += header.count
            return batch
        opened = open_batch(batch, header)
        if opened is None:
            self._tombstones_stay = True
            self.records_kept += header.count
            return batch
        payload, found = opened
        kept = self._kept(header, payload, found)
        self.records_kept += len(kept)
        self.records_dropped += header.count - len(kept)
        if not kept:
            return _emptied(header) if self._must_leave_a_trace(header, traces) else None
        horizon_ms = self._new_horizon_ms(header, kept) if any(raw.value_size < 0 for raw in kept) else None
        if len(kept) == header.count and horizon_ms is None:
            return batch
        return _rebuilt(header, payload, kept, horizon_ms)

    def _new_horizon_ms(self, header: BatchHeader, kept: list[RawRecord]) -> int | None:
        """None if the batch has one, or cannot have one: then its tombstones stay."""
        if header.delete_horizon_ms is not None:
            return None
        horizon_ms = min(self._now_ms + self._delete_retention_ms, HORIZON_MAX_MS)
        oldest = header.base_timestamp + min(raw.timestamp_delta for raw in kept)
        return horizon_ms if oldest - horizon_ms >= _OLDEST_TIMESTAMP else None

    def _apply_to_marker(
        self, batch: memoryview, header: BatchHeader, traces: Collection[int]
    ) -> Buffer | None:
        opened = open_batch(batch, header) if header.producer_id >= 0 else None
        if opened is None:
            return batch  # A leader's own record, or unreadable.
        ends_something = self._transactions.ends_something(header, decode_marker(batch, header))
        if ends_something or header.base_offset >= self._end_offset:
            return batch
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None and header.count:
            new_horizon_ms = self._new_horizon_ms(header, opened[1])
            return batch if new_horizon_ms is None else _rebuilt(header, *opened, new_horizon_ms)
        if horizon_ms is not None and horizon_ms > self._now_ms:
            return batch
        if not self._must_leave_a_trace(header, traces):
            return None
        return _emptied(header) if header.count else batch

    def _kept(self, header: BatchHeader, payload: Buffer, found: list[RawRecord]) -> list[RawRecord]:
        horizon_ms = header.delete_horizon_ms
        tombstones_go = horizon_ms is not None and horizon_ms <= self._now_ms and not self._tombstones_stay
        view = memoryview(payload)
        newest = self._newest.get
        kept = []
        for raw in found:
            # A record without a key is never superseded: it is older than the topic's compaction.
            if raw.key_size < 0 or (raw.value_size < 0 and tombstones_go):
                continue
            key = view[raw.key_start : raw.key_start + raw.key_size]
            if header.base_offset + raw.offset_delta >= newest(key):
                kept.append(raw)
        return kept

    def _must_leave_a_trace(self, header: BatchHeader, traces: Collection[int]) -> bool:
        if header.next_offset in traces:
            return True
        # Recovery and followers learn from the batches where an epoch begins. If it seemed to begin later, a
        # replica with other records of an older epoch would not be found to diverge.
        if header.base_offset == self._epoch_start and header.leader_epoch > 0:
            return True
        # A live producer will be checked against the sequence of its last batch, or the epoch of its last
        # marker.
        last = self._last_written.get(header.producer_id)
        if last is None:
            return False
        if last.offset == ANY_OFFSET:
            return True
        if last.offset >= 0:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch


def _emptied(header: BatchHeader) -> bytearray:
    attributes = header.attributes & ~(batches.CODEC_MASK | batches.DELETE_HORIZON_MASK)
    return batches.rebuild(header, b"", attributes=attributes, count=0, base_timestamp=-1)


def _rebuilt(
    header: BatchHeader, payload: Buffer, kept: list[RawRecord], horizon_ms: int | None
) -> bytearray:
    """The kept records in the same place; a new horizon replaces the base timestamp."""
    view = memoryview(payload)
    records = bytearray()
    attributes = header.attributes
    if horizon_ms is None:
        for raw in kept:
            records += view[raw.start : raw.end]
    else:
        attributes |= batches.DELETE_HORIZON_MASK
        for raw in kept:
            _append_with_time(records, view, raw, header.base_timestamp + raw.timestamp_delta - horizon_ms)
    newest = header.max_timestamp
    if not header.is_log_append_time:
        newest = header.base_timestamp + max(raw.timestamp_delta for raw in kept)
    return batches.rebuild(
        header,
        compress(header.codec, records),
        attributes=attributes,
        count=len(kept),
        base_timestamp=header.base_timestamp if horizon_ms is None else horizon_ms,
        max_timestamp=newest,
    )


def _append_with_time(records: bytearray, payload: memoryview, raw: RawRecord, timestamp_delta: int) -> None:
    """Copy a record, changing only its timestamp delta."""
    unchanged = payload[raw.after_timestamp : raw.end]
    append_varint(records, 1 + varint_size(timestamp_delta) + len(unchanged))
    records.append(0)  # attributes, unused in this format
    append_varint(records, timestamp_delta)
    records += unchanged
