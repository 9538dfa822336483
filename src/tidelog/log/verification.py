"""Finding damage in old segments before a reader does: bits flip on disks that say that all is well.

What this process has written was checked when it came in. What it found on disk is checked when it is first
read, and every byte is looked at now and then by whoever walks over :func:`pieces`. The checksum of
a batch does not cover its offset and length, so those are held against their neighbours.
"""

from collections.abc import Generator
from typing import NamedTuple

from tidelog.errors import CorruptBatch, StorageError
from tidelog.log.segment import Segment
from tidelog.log.storage import Region
from tidelog.protocol import batch as batches

PIECE_BYTES = 1 << 20
SLICE_BYTES = 128 << 10  # read back at once: less than 5 ms, however small the batches are


class DamagedSegment(StorageError):
    """Records on disk are not what was written."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset  # Everything before it that was read is whole.


class Piece(NamedTuple):
    """Bytes of a segment to be checked, anywhere."""

    segment: Segment
    region: Region
    next_offset: int  # no batch in it begins before
    end_offset: int  # exclusive: no batch ends behind
    is_last: bool  # of its segment

    def check(self) -> "Checked":
        """Reads and checks. Safe in any thread."""
        try:
            data = memoryview(self.region.read())
            return check(data, self.next_offset, self.end_offset, to_the_end=self.is_last)
        except OSError as error:
            return Checked(0, self.next_offset, f"cannot be read: {error}")


class Checked(NamedTuple):
    whole_bytes: int
    next_offset: int  # exclusive end of the batches that are whole
    damage: str  # what is wrong with the one behind them; empty: nothing, or it was not read to its end


def check(data: memoryview, next_offset: int, end_offset: int, *, to_the_end: bool) -> Checked:
    """Every batch that is there in full; with ``to_the_end`` all of them must be."""
    at = 0
    try:
        while len(data) - at >= batches.HEADER_SIZE:
            _, size = batches.parse_prefix(data, at)
            if size < batches.HEADER_SIZE:
                raise CorruptBatch(f"a batch claims {size} bytes")
            if size > len(data) - at:
                break
            header = batches.check(data, at)
            if not next_offset <= header.base_offset < header.next_offset <= end_offset:
                raise CorruptBatch(f"offset {header.base_offset} between {next_offset} and {end_offset}")
            next_offset = header.next_offset
            at += size
        if to_the_end and at < len(data):
            raise CorruptBatch("the segment ends within a batch")
    except CorruptBatch as error:
        return Checked(at, next_offset, error.message)
    return Checked(at, next_offset, "")


def verify_read(segment: Segment, position: int, size: int, offset: int, end_offset: int) -> None:
    """Check what a reader of ``offset`` is about to get from a segment whose records end before
    ``end_offset``; raises :class:`DamagedSegment`.
    """
    if position + size <= segment.verified_to:
        return
    data = memoryview(segment.file().read_at(position, size))
    to_the_end = position + size >= segment.size
    found = check(data, segment.base_offset, end_offset, to_the_end=to_the_end)
    if found.damage:
        damaged_from = found.next_offset if found.whole_bytes else offset
        raise DamagedSegment(f"{segment!r} is damaged: {found.damage}", damaged_from)
    if found.whole_bytes:
        segment.note_verified(position, position + found.whole_bytes)


def verified_bytes(
    segment: Segment, position: int, available: int, first_size: int, offset: int, end_offset: int
) -> int:
    """How many of ``available`` bytes a reader of ``offset`` gets now. A slice at a time is read back and
    checked, and always the first batch, which has ``first_size`` bytes: whoever asks for a lot asks again.
    Raises :class:`DamagedSegment`.
    """
    known = segment.verified_from(position)
    if known > position:
        return min(available, known - position)
    size = min(available, max(SLICE_BYTES, first_size))
    verify_read(segment, position, size, offset, end_offset)
    return size


def pieces(segment: Segment, end_offset: int) -> Generator[Piece, Checked | None, None]:
    """The whole segment, piece by piece; the caller says with ``send`` what became of the last piece."""
    position, next_offset = 0, segment.base_offset
    wanted = PIECE_BYTES
    while position < segment.size:
        size = min(wanted, segment.size - position)
        region = Region(segment.file(), position, size)
        is_last = position + size >= segment.size
        found: Checked | None = yield Piece(segment, region, next_offset, end_offset, is_last)
        if found is None or found.damage:
            return
        if not found.whole_bytes:
            wanted *= 2  # One batch is larger than the piece.
            continue
        position, next_offset, wanted = position + found.whole_bytes, found.next_offset, PIECE_BYTES
