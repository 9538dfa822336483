"""Transactions in a log once more, as simply as they can be said: a list of batches, no memory but that."""

from typing import NamedTuple

from tidelog.log.log import Log
from tidelog.log.scan import headers
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import TRANSACTIONAL_MASK
from tidelog.protocol.markers import Marker, decode_marker, encode_marker
from tidelog.protocol.records import Record, decode_batch, encode_batch
from unit.log.log_model import append


class Entry(NamedTuple):
    """A batch of a producer, or a marker."""

    producer_id: int
    base_offset: int
    last_offset: int
    kind: str  # "plain", "transactional", "commit" or "abort"

    @property
    def is_marker(self) -> bool:
        return self.kind in ("commit", "abort")


class Transaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # Of the marker; -1 while it is open.
    aborted: bool


def transactions_of(history: list[Entry]) -> list[Transaction]:
    """Every transaction with at least one batch, by its marker, the open ones last."""
    found = []
    opened: dict[int, int] = {}
    for entry in history:
        if entry.kind == "transactional":
            opened.setdefault(entry.producer_id, entry.base_offset)
        elif entry.is_marker and entry.producer_id in opened:
            first = opened.pop(entry.producer_id)
            found.append(Transaction(entry.producer_id, first, entry.last_offset, entry.kind == "abort"))
    return found + [Transaction(key, first, -1, False) for key, first in opened.items()]


def stable_offset(history: list[Entry], high_watermark: int) -> int:
    """No transaction that is open, or whose marker could still be lost, begins below it."""
    uncertain = [
        each.first_offset
        for each in transactions_of(history)
        if each.last_offset == -1 or each.last_offset >= high_watermark
    ]
    return min([high_watermark, *uncertain])


def aborted_in(history: list[Entry], start: int, end: int) -> set[tuple[int, int]]:
    return {
        (each.producer_id, each.first_offset)
        for each in transactions_of(history)
        if each.aborted and each.last_offset >= start and each.first_offset < end
    }


def data_batch(
    offset: int, producer_id: int, count: int = 1, *, transactional: bool, leader_epoch: int = 0
) -> bytearray:
    return batches.build(
        b"x" * 20, base_offset=offset, last_offset_delta=count - 1, count=count, base_timestamp=1000,
        max_timestamp=1000, attributes=TRANSACTIONAL_MASK if transactional else 0, leader_epoch=leader_epoch,
        producer_id=producer_id, producer_epoch=0, base_sequence=0,
    )  # fmt: skip


def marker_batch(
    offset: int, producer_id: int, *, commits: bool, leader_epoch: int = 0, coordinator_epoch: int = 0
) -> bytearray:
    batch = encode_marker(Marker(commits, coordinator_epoch), producer_id, 0, offset=offset, now_ms=1000)
    batches.assign(batch, 0, offset, leader_epoch)
    return batch


def write(log: Log, producer_id: int, kind: str, count: int = 1, *, leader_epoch: int = 0) -> Entry:
    """Append as a leader does; with its place."""
    offset = log.end_offset
    batch, entry = encoded(offset, producer_id, kind, count, leader_epoch=leader_epoch)
    append(log, batch)
    return entry


def encoded(
    offset: int, producer_id: int, kind: str, count: int = 1, *, leader_epoch: int = 0
) -> tuple[bytearray, Entry]:
    if kind in ("commit", "abort"):
        batch = marker_batch(offset, producer_id, commits=kind == "commit", leader_epoch=leader_epoch)
        return batch, Entry(producer_id, offset, offset, kind)
    batch = data_batch(
        offset, producer_id, count, transactional=kind == "transactional", leader_epoch=leader_epoch
    )
    return batch, Entry(producer_id, offset, offset + count - 1, kind)


def history_in(log: Log) -> list[Entry]:
    """What the segments hold."""
    found = []
    for segment in log.segments:
        for position, header in headers(segment.file(), 0, segment.size):
            if header.producer_id < 0:
                continue
            kind = "transactional" if header.is_transactional else "plain"
            if header.is_control:
                marker = decode_marker(segment.file().read_at(position, header.size), header)
                assert marker is not None
                kind = "commit" if marker.commits else "abort"
            found.append(Entry(header.producer_id, header.base_offset, header.last_offset, kind))
    return found


# -- with real records -----------------------------------------------------------


def write_key(log: Log, producer_id: int, key: str, value: str | None, *, sequence: int = 0) -> None:
    """One record inside a transaction; outside of any where the producer id is -1."""
    record = Record(log.end_offset, 1000, key.encode(), None if value is None else value.encode())
    in_transaction = producer_id >= 0
    batch = encode_batch(
        [record], leader_epoch=0, producer_id=producer_id, producer_epoch=0 if in_transaction else -1,
        base_sequence=sequence if in_transaction else -1, transactional=in_transaction,
    )  # fmt: skip
    append(log, batch)


def read_committed(log: Log, start: int, high_watermark: int) -> list[Record]:
    """What a client with isolation level read_committed makes of its answers."""
    found: list[Record] = []
    offset, end = start, log.last_stable_offset(high_watermark)
    while offset < end:
        data = log.read(offset, 300, end, at_least_one_batch=True).read()
        if not data:
            break
        last = max(header.last_offset for _, header in batches.iterate(data))
        upcoming = [(first, key) for key, first in log.aborted_transactions(offset, last + 1)]
        skipped: set[int] = set()
        for position, header in batches.iterate(data):
            offset = header.next_offset
            while upcoming and upcoming[0][0] <= header.last_offset:
                skipped.add(upcoming.pop(0)[1])
            batch = data[position : position + header.size]
            if header.is_control:
                marker = decode_marker(batch, header) if header.producer_id >= 0 else None
                if marker is not None and not marker.commits:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                found += [record for record in decode_batch(batch) if record.offset >= start]
    return found
