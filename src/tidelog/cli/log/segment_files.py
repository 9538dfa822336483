"""Reading a segment's files from outside, without a broker and without changing a byte.

Owns what ``tidelog log dump`` knows about files. The layout is Kafka's, so segments of Apache Kafka can be
read as well. :func:`rows_of` yields what was found, one row at a time, and never holds more than one batch of
a log. It prints nothing.

A log is sound when every batch has a right CRC, its records fit its header, and offsets ascend. An index is
sound when a search through it can miss nothing: entries ascend, and what an entry lets a reader skip is never
what that reader looks for.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import BinaryIO, NamedTuple

from tidelog.cli.failure import CommandFailed
from tidelog.cli.tables import count
from tidelog.errors import CorruptBatch
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.records import Record, decode_batch

_OFFSET_ENTRY = Struct(">ii")  # offset relative to the segment's base offset, position in the log
_TIME_ENTRY = Struct(">qi")  # timestamp, relative offset
_BASE_OFFSET_DIGITS = 20


class BatchRow(NamedTuple):
    position: int  # byte in the file
    header: BatchHeader


class RecordRow(NamedTuple):
    record: Record


class IndexRow(NamedTuple):
    """An index file that was read to its end."""

    entries: int


class Note(NamedTuple):
    """Worth saying, and no damage."""

    position: int
    sentence: str


class Problem(NamedTuple):
    position: int
    sentence: str


Row = BatchRow | RecordRow | IndexRow | Note | Problem


def rows_of(path: Path, *, records: bool = True) -> Iterator[Row]:
    """What one file of a segment holds; an index is checked against the log beside it."""
    if path.suffix == ".log":
        yield from _log_rows(path, records)
    elif path.suffix in (".index", ".timeindex"):
        yield from _index_rows(path)
    else:
        raise CommandFailed(f"{path} is not a .log, .index or .timeindex file.")


def _base_offset(path: Path) -> int | None:
    """The offset a segment is named by; None for a file with another name."""
    return int(path.stem) if len(path.stem) == _BASE_OFFSET_DIGITS and path.stem.isdigit() else None


def _log_rows(path: Path, records: bool) -> Iterator[Row]:
    next_offset = _base_offset(path)
    for found in _batches_of(path):
        if isinstance(found, Note | Problem):
            yield found
            return
        position, data = found
        header = batches.parse_header(data)
        yield BatchRow(position, header)
        try:
            batches.check(data)
            if records:
                yield from _record_rows(data, header)
        except CorruptBatch as damage:
            yield Problem(position, damage.message)
            continue
        if next_offset is not None and header.base_offset < next_offset:
            yield Problem(position, f"offset {header.base_offset} follows although {next_offset} is due")
        next_offset = header.next_offset


def _batches_of(path: Path, *, headers_only: bool = False) -> Iterator[tuple[int, bytes] | Note | Problem]:
    """(position, bytes) of each batch that the lengths lead to; what is left over comes last, in words."""
    size = path.stat().st_size
    position = 0
    with path.open("rb") as file:
        while position < size:
            head = file.read(min(batches.HEADER_SIZE, size - position))
            claimed = batches.parse_prefix(head)[1] if len(head) == batches.HEADER_SIZE else 0
            if not batches.HEADER_SIZE <= claimed <= size - position:
                yield _left_over(file, head, position, size, claimed)
                return
            if headers_only:
                file.seek(position + claimed)
                yield position, head
            else:
                yield position, head + file.read(claimed - batches.HEADER_SIZE)
            position += claimed


def _left_over(file: BinaryIO, head: bytes, position: int, size: int, claimed: int) -> Note | Problem:
    """Space reserved ahead of writing is all zeros; anything else is a torn or overwritten batch."""
    left = size - position
    chunks = iter(lambda: file.read(1 << 20), b"")
    if not any(head) and not any(any(chunk) for chunk in chunks):
        return Note(position, f"the last {count(left, 'byte')} are zeros, reserved for what comes")
    if len(head) < batches.HEADER_SIZE:
        return Problem(position, f"the last {count(left, 'byte')} are too few for a batch header")
    return Problem(position, f"a batch claims {claimed} bytes, {left} are left in the file")


def _record_rows(data: bytes, header: BatchHeader) -> Iterator[RecordRow]:
    previous = header.base_offset - 1
    for record in decode_batch(data, header):
        if not previous < record.offset <= header.last_offset:
            raise CorruptBatch(f"record offset {record.offset} does not fit after {previous}")
        previous = record.offset
        yield RecordRow(record)


class Outline(NamedTuple):
    """What an index can be compared with, one element per batch of the log."""

    base_offset: int  # 0 for an empty log
    positions: list[int]
    last_offsets: list[int]
    newest: list[int]  # largest timestamp up to and including this batch


def _index_rows(path: Path) -> Iterator[Row]:
    log = path.with_suffix(".log")
    if not log.exists():
        yield Problem(0, f"there is no {log.name} beside it to check it against")
        return
    # The index first: a running broker may append between the two, and an older index fits a newer log.
    data = path.read_bytes()
    outline = _outline(log)
    named = _base_offset(path)
    check = _check_offset_index if path.suffix == ".index" else _check_time_index
    yield from check(data, outline.base_offset if named is None else named, outline)


def _outline(log: Path) -> Outline:
    outline = Outline(0, [], [], [])
    for found in _batches_of(log, headers_only=True):
        if isinstance(found, Note | Problem):
            break
        position, head = found
        header = batches.parse_header(head)
        if not outline.positions:
            outline = outline._replace(base_offset=header.base_offset)
        outline.positions.append(position)
        outline.last_offsets.append(header.last_offset)
        outline.newest.append(max(outline.newest[-1] if outline.newest else -1, header.max_timestamp))
    return outline


def _entries(data: bytes, layout: Struct) -> Iterator[tuple[int, int, int]]:
    """(place in the file, first number, second number); an index is reserved ahead, so zeros end it."""
    whole = len(data) - len(data) % layout.size
    for number, (first, second) in enumerate(layout.iter_unpack(memoryview(data)[:whole])):
        if number and not first and not second:
            return
        yield number * layout.size, first, second


def _check_offset_index(data: bytes, base_offset: int, log: Outline) -> Iterator[Row]:
    previous = (-1, -1)
    entries = 0
    for place, relative, position in _entries(data, _OFFSET_ENTRY):
        if (relative, position) == (0, 0) and not entries:
            continue  # reserved from the first byte on, or an entry that says nothing
        entries += 1
        offset = base_offset + relative
        batch = bisect_left(log.positions, position)
        if relative <= previous[0] or position <= previous[1]:
            yield Problem(place, f"the entry for offset {offset} does not ascend")
        elif batch == len(log.positions) or log.positions[batch] != position:
            yield Problem(place, f"offset {offset} points to byte {position}, where no batch begins")
        elif batch and log.last_offsets[batch - 1] >= offset:
            yield Problem(place, f"offset {offset} points past the batch that holds it, to byte {position}")
        previous = (relative, position)
    yield IndexRow(entries)


def _check_time_index(data: bytes, base_offset: int, log: Outline) -> Iterator[Row]:
    previous = (-1, -1)
    entries = 0
    for place, timestamp, relative in _entries(data, _TIME_ENTRY):
        if (timestamp, relative) == (0, 0) and not entries:
            continue
        entries += 1
        offset = base_offset + relative
        batch = bisect_left(log.last_offsets, offset)  # the one a search for this time begins with
        if timestamp <= previous[0] or relative < previous[1]:
            yield Problem(place, f"the entry for time {timestamp} does not ascend")
        elif batch == len(log.positions):
            yield Problem(place, f"time {timestamp} points to offset {offset}, past the end of the log")
        elif batch and log.newest[batch - 1] >= timestamp:
            yield Problem(place, f"time {timestamp} points to offset {offset}, past a record of that time")
        previous = (timestamp, relative)
    yield IndexRow(entries)


def files_in(paths: Iterable[Path]) -> list[Path]:
    """The files to read: as named, or all segments with their indexes under a directory, oldest first."""
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise CommandFailed(f"There is no file or directory {path}.")
        if path.is_file():
            found.append(path)
            continue
        logs = [log for log in sorted(path.rglob("*.log")) if _base_offset(log) is not None]
        if not logs:
            raise CommandFailed(f"{path} contains no segments.")
        for log in logs:
            found.append(log)
            found += [
                index for suffix in (".index", ".timeindex") if (index := log.with_suffix(suffix)).exists()
            ]
    return found
