"""What the log tests share: settings small enough to roll often, batches, and a way to read a whole log."""

from dataclasses import dataclass, replace
from typing import Any, Self

from tidelog.log.log import Log
from tidelog.log.storage import Storage
from tidelog.protocol import batch as batches
from tidelog.protocol.records import Record, encode_batch

LONG = (1 << 63) - 1
BATCH_OVERHEAD = batches.HEADER_SIZE


@dataclass(frozen=True)
class Settings:
    segment_bytes: int = 1000
    segment_ms: int = LONG
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 1200
    index_interval_bytes: int = 150
    retention_ms: int = -1
    retention_bytes: int = -1
    flush_messages: int = LONG
    flush_ms: int = LONG
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    max_compaction_lag_ms: int = LONG
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    message_timestamp_after_max_ms: int = 100

    def but(self, **changes: Any) -> Self:
        return replace(self, **changes)


SMALL = Settings()
ONE_SEGMENT = Settings(segment_bytes=1 << 20, segment_index_bytes=1 << 16)

Batch = tuple[int, int, bytes]
"""(base offset, last offset, payload): what a test compares."""


def make_batch(
    base_offset: int, payload: bytes = b"x" * 39, *, count: int = 1, timestamp: int = 1000, epoch: int = 0
) -> bytearray:
    """A valid batch with opaque records."""
    return batches.build(
        payload, base_offset=base_offset, last_offset_delta=count - 1, count=count, base_timestamp=timestamp,
        max_timestamp=timestamp, leader_epoch=epoch,
    )  # fmt: skip


def record_batch(base_offset: int, timestamps: list[int], *, epoch: int = 0) -> bytearray:
    """A batch of real records, one per timestamp."""
    records = [
        Record(base_offset + number, timestamp, None, b"v%d" % number)
        for number, timestamp in enumerate(timestamps)
    ]
    batch = bytearray(encode_batch(records))
    batches.assign(batch, 0, base_offset, epoch)
    return batch


def append(log: Log, data: bytearray, now_ms: int = 1000) -> None:
    """Append a batch as the leader does."""
    header = batches.parse_header(data)
    log.append(memoryview(data), header.last_offset, header.max_timestamp, header.leader_epoch, now_ms)


def append_many(log: Log, count: int, *, epoch: int = 0, payload: bytes = b"x" * 39) -> None:
    """``count`` batches of one record each; record n has timestamp 1000 + n."""
    for _ in range(count):
        append(log, make_batch(log.end_offset, payload, timestamp=1000 + log.end_offset, epoch=epoch))


def open_log(
    storage: Storage, settings: Settings = SMALL, *, clean: bool = False, recovery_point: int = 0,
    log_start_offset: int = 0, directory: str = "t-0", now_ms: int = 1000,
) -> Log:  # fmt: skip
    return Log.open(
        storage, directory, settings, clean=clean, recovery_point=recovery_point,
        log_start_offset=log_start_offset, now_ms=now_ms,
    )  # fmt: skip


def contents(log: Log, *, end_offset: int | None = None) -> list[Batch]:
    """Everything readable, read as a consumer would: from the start, answer by answer."""
    found: list[Batch] = []
    offset = log.start_offset
    limit = log.end_offset if end_offset is None else end_offset
    while offset < limit:
        data = log.read(offset, 1 << 30, limit, at_least_one_batch=True).read()
        if not data:
            break
        for position, header in batches.iterate(data):
            batches.check(data, position)
            payload = bytes(data[position + batches.HEADER_SIZE : position + header.size])
            found.append((header.base_offset, header.last_offset, payload))
            offset = header.next_offset
    return found


def sync(log: Log, now_ms: int = 1000) -> None:
    """Sync until the recovery point has caught up, too."""
    for _ in range(2):
        ticket = log.begin_sync()
        ticket.run()
        log.finish_sync(ticket, now_ms)
