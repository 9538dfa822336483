"""The batches in a log, or on a disk whose process is dead."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from tidelog.errors import CorruptBatch, StorageError
from tidelog.log.log import Log
from tidelog.log.verification import DamagedSegment
from tidelog.protocol.batch import check, iterate, parse_header
from tidelog.protocol.records import ControlType, Record, control_type, decode_batch
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.disk import SimulatedDisk

Batch = tuple[int, int, int]
"""(next offset, leader epoch, CRC)"""

READ_AT_ONCE_BYTES = 1 << 20


class Entry(NamedTuple):
    """One record, as a reader of the log finds it."""

    offset: int
    epoch: int
    value: bytes


def batches_between(log: Log, start: int, end: int, *, may_extend: bool = False) -> list[tuple[int, Batch]]:
    """The batches in a range of offsets, by base offset. ``may_extend``: the last one may extend beyond it,
    as in a log that is compared with a diverging one.
    """
    return [batch for data in pieces(log, start, end, may_extend=may_extend) for batch in _outline(data)]


def entries_between(log: Log, start: int, end: int) -> list[Entry]:
    """The records in a range of offsets, without the brokers' own markers."""
    return [entry for data in pieces(log, start, end) for entry in entries(data)]


def records_between(log: Log, start: int, end: int) -> list[tuple[int, Batch]]:
    """The records in a range of offsets, each by its own: compaction rebuilds batches, on every node at its
    own time. Markers that end transactions may be removed, too.
    """
    return [
        (record.offset, (record.offset + 1, epoch, crc32(record.value or b"", crc32(record.key or b""))))
        for data in pieces(log, start, end, may_extend=True)
        for epoch, records in _keyed(data)
        for record in records
        if record.offset < end
    ]


def newest_of(log: Log) -> dict[bytes | None, tuple[int, bytes]]:
    """By key: the position and content of its newest record. Each node decides by itself whether a tombstone
    is still there; the same holds for records of aborted transactions, which do not count.
    """
    found: dict[bytes | None, tuple[int, bytes]] = {}
    for records in _counting(log):
        for record in records:
            found.pop(record.key, None)
            if record.value is not None:
                found[record.key] = record.offset, record.value
    return found


def _counting(log: Log) -> Iterator[list[Record]]:
    """The records of each batch that belongs to no transaction, or to one that was committed."""
    batches: list[list[Record]] = []
    undecided: dict[int, list[int]] = {}  # By producer: the positions of its batches since its last marker.
    for data in pieces(log, log.start_offset, log.end_offset):
        for position, header in iterate(data):
            records = list(decode_batch(data[position : position + header.size]))
            if not header.is_control:
                if header.is_transactional:
                    undecided.setdefault(header.producer_id, []).append(len(batches))
                batches.append(records)
            elif header.is_transactional:
                mine = undecided.pop(header.producer_id, [])
                if records and control_type(records[0].key) is ControlType.ABORT:
                    _forget(batches, mine)
    for mine in undecided.values():
        _forget(batches, mine)
    yield from batches


def _forget(batches: list[list[Record]], places: list[int]) -> None:
    for place in places:
        batches[place] = []


def _keyed(data: bytes) -> Iterator[tuple[int, list[Record]]]:
    for position, header in iterate(data):
        if not header.is_control:
            yield header.leader_epoch, list(decode_batch(data[position : position + header.size]))


def pieces(log: Log, start: int, end: int, *, may_extend: bool = False) -> Iterator[bytes]:
    """The bytes of whole batches, a segment at a time; up to the first damage. ``may_extend``: the batch at
    the end of the range may extend beyond it. A node that lost power may know an older high watermark than
    the one up to which its log, or its leader's, was compacted.
    """
    offset = max(start, log.start_offset)
    while offset < end:
        data, end = _read(log, offset, end)
        if may_extend and not _outline(data) and offset < end:
            data, reach = _read(log, offset, log.end_offset, 1)
            end = min(end, reach)
        batches = _outline(data)
        if not batches and offset < end:
            raise Violation(f"{log.directory}: no batch begins at {offset} and ends before {end}")
        yield data
        offset = batches[-1][1][0] if batches else end


def is_intact_from(log: Log, offset: int) -> bool:
    """Whether the log can be read from there on to its end."""
    offset, end = max(offset, log.start_offset), log.end_offset
    while offset < end:
        data, intact_to = _read(log, offset, end)
        batches = _outline(data)
        if intact_to < end or not batches:
            return False
        offset = batches[-1][1][0]
    return True


def _read(log: Log, offset: int, end: int, size: int = READ_AT_ONCE_BYTES) -> tuple[bytes, int]:
    """The readable content of the log there. Reading must have no side effects: the broker has to find damage
    by itself.
    """
    verified = []
    for segment in reversed(log.segments):
        verified.append((segment, segment.verified.end, segment.verified.parts))
        if segment.base_offset <= offset:
            break
    try:
        return bytes(log.read(offset, size, end, at_least_one_batch=True).read()), end
    except DamagedSegment as damage:
        whole = log.read(offset, size, damage.offset, at_least_one_batch=True)
        return bytes(whole.read()), damage.offset
    except StorageError:
        return _without_indexes(log, offset, end)
    finally:
        for segment, position, parts in verified:
            segment.verified.end, segment.verified.parts = position, parts


# The same bytes are read repeatedly: on every replica, by readers and at the end.


@lru_cache(maxsize=4096)
def _outline(data: bytes) -> list[tuple[int, Batch]]:
    return [
        (
            header.base_offset,
            (header.base_offset + header.last_offset_delta + 1, header.leader_epoch, header.crc),
        )
        for _, header in iterate(data)
    ]


def forget_all() -> None:
    """The next run has other bytes: the cache of this one would only use memory."""
    _outline.cache_clear()
    _decoded.cache_clear()


def entries(data: bytes) -> Iterator[Entry]:
    for position, header in iterate(data):
        if not header.is_control:
            yield from _decoded(data[position : position + header.size])


@lru_cache(maxsize=4096)
def _decoded(batch: bytes) -> list[Entry]:
    """Raises CorruptBatch if the records do not match the checksum."""
    epoch = parse_header(batch).leader_epoch
    return [Entry(record.offset, epoch, record.value or b"") for record in decode_batch(batch)]


def end_on_disk(disk: SimulatedDisk, directory: str) -> int:
    """The end of a log that is not open: after the last intact batch without a gap before it."""
    return max((end for end, _ in _segments(disk.contents(directory))), default=0)


def batches_on_disk(disk: SimulatedDisk, directory: str) -> list[tuple[int, Batch]]:
    """The batches up to that end, by base offset."""
    return [batch for _, found in _segments(disk.contents(directory)) for batch in found]


def synced_on_disk(disk: SimulatedDisk, directory: str) -> tuple[int, list[tuple[int, Batch]]]:
    """End and batches of a log that may be open, as the worst power failure would leave it."""
    segments = list(_segments(disk.synced_contents(directory)))
    return max((end for end, _ in segments), default=0), [batch for _, found in segments for batch in found]


def _segments(files: Mapping[str, bytes]) -> Iterator[tuple[int, list[tuple[int, Batch]]]]:
    """The end of each segment and its batches, up to the first gap or damage."""
    end = -1
    for path, data in files.items():
        if not path.endswith(".log"):
            continue
        base = int(path.rpartition("/")[2].removesuffix(".log"))
        if end not in (-1, base):
            return
        found, whole = _intact(data, base)
        end = found[-1][1][0] if found else base
        yield end, found
        if not whole:
            return


def _intact(data: bytes, base: int) -> tuple[list[tuple[int, Batch]], bool]:
    """The batches of a segment up to the first that is damaged, and whether none is."""
    end, position = base, 0
    found: list[tuple[int, Batch]] = []
    while position < len(data):
        try:
            header = check(data, position)
        except CorruptBatch:
            return found, False
        if header.base_offset < end:
            return found, False  # A write that went astray: whole, and not of this place.
        end = header.next_offset
        found.append((header.base_offset, (end, header.leader_epoch, header.crc)))
        position += header.size
    return found, True


def _without_indexes(log: Log, offset: int, end: int) -> tuple[bytes, int]:
    """The same where an index has to be built first, and the node's disk is full or fails."""
    segment = [each for each in log.segments if each.base_offset <= offset][-1]
    data = segment.file().read_at(0, segment.size)
    found = b""
    for position, header in iterate(data):
        try:
            check(data, position)
        except CorruptBatch:
            return found, min(end, header.base_offset)
        if offset < header.next_offset <= end:
            found += data[position : position + header.size]
    return found, end
