"""Finds damage in old segments before a reader does: disks can flip bits without reporting an error.

Batches written by this process were checked when they arrived. What it found on disk is checked when it is
first read, and the scrubber checks every byte periodically (:func:`pieces`). The checksum of a batch does not
cover its offset and length, so those are compared with their neighbours.
"""

from collections.abc import Generator
from typing import NamedTuple

from tidelog.config.kinds import LONG_MAX
from tidelog.errors import CorruptBatch, StorageError
from tidelog.log.epochs import NO_HISTORY, History
from tidelog.log.segment import Segment
from tidelog.log.storage import Region
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader
from tidelog.types import NO_EPOCH

PIECE_BYTES = 1 << 20
SLICE_BYTES = 128 << 10  # checked at once: less than 5 ms, however small the batches are
ANY_EPOCH = -1
ORDER_SIZE = batches.LENGTH_PREFIX_SIZE + 4  # Offset, length and leader epoch.


class DamagedSegment(StorageError):
    """Records on disk are damaged."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset  # Everything checked before it is intact.


class Piece(NamedTuple):
    """A range of a segment to be checked."""

    segment: Segment
    region: Region
    next_offset: int  # no batch in it begins before
    end_offset: int  # exclusive: no batch ends after it
    is_last: bool  # of its segment
    epoch_max: int = ANY_EPOCH  # of what follows the segment
    dense_from: int = LONG_MAX  # no offset is missing between two batches after it
    history: History = NO_HISTORY  # the epochs of its batches

    def check(self) -> "VerifiedPiece":
        """Reads and checks. Safe in any thread."""
        try:
            data = memoryview(self.region.read())
            return check(
                data, self.next_offset, self.end_offset, to_the_end=self.is_last, epoch_max=self.epoch_max,
                dense_from=self.dense_from, history=self.history,
            )  # fmt: skip
        except OSError as error:
            return VerifiedPiece(0, self.next_offset, f"cannot be read: {error}")


class VerifiedPiece(NamedTuple):
    whole_bytes: int
    next_offset: int  # exclusive end of the intact batches
    damage: str  # what is wrong with the next one; empty: nothing, or it was not read to its end


def check(
    data: memoryview,
    next_offset: int,
    end_offset: int,
    *,
    to_the_end: bool,
    epoch_max: int = ANY_EPOCH,
    limit: int | None = None,
    dense_from: int = LONG_MAX,
    history: History = NO_HISTORY,
) -> VerifiedPiece:
    """Check every complete batch; with ``to_the_end`` all must be, and what follows is of ``epoch_max``.
    Batches that end after ``limit`` bytes do not count: they only show what follows. ``history``: the epochs
    of the batches, if known.
    """
    at = 0
    end = len(data) if limit is None else limit
    epoch: int = NO_EPOCH
    whole_before = 0, next_offset  # Where the last batch begins, and which offset was expected there.
    try:
        while len(data) - at >= batches.HEADER_SIZE:
            base_offset, size = batches.parse_prefix(data, at)
            _check_order(base_offset, batches.parse_leader_epoch(data, at), next_offset, epoch, dense_from)
            if size < batches.HEADER_SIZE:
                raise CorruptBatch(f"a batch claims {size} bytes")
            if size > end - at:
                break
            header = batches.check(data, at)
            if header.next_offset > end_offset:
                raise CorruptBatch(f"offset {header.last_offset}, and {end_offset} comes after it")
            if history.contradicts(header.base_offset, header.leader_epoch):
                # The one after it may fit: the last batch of an epoch that claims to be of the next one.
                raise CorruptBatch(f"offset {header.base_offset} was not written in {header.leader_epoch}")
            whole_before = at, next_offset
            next_offset, epoch = header.next_offset, header.leader_epoch
            at += size
        if to_the_end and at < len(data):
            raise CorruptBatch("the segment ends within a batch")
        if to_the_end and next_offset < end_offset and end_offset > dense_from:
            raise CorruptBatch(f"the segment ends at offset {next_offset}, and {end_offset} comes after it")
        if to_the_end and 0 <= epoch_max < epoch:
            raise _OutOfOrder(f"leader epoch {epoch_max} follows {epoch}")
        if len(data) - at >= ORDER_SIZE:
            base_offset, _ = batches.parse_prefix(data, at)
            _check_order(base_offset, batches.parse_leader_epoch(data, at), next_offset, epoch, dense_from)
    except _OutOfOrder as error:
        return VerifiedPiece(*whole_before, error.message)
    except CorruptBatch as error:
        return VerifiedPiece(at, next_offset, error.message)
    return VerifiedPiece(at, next_offset, "")


class _OutOfOrder(CorruptBatch):
    """One of two batches is wrong; it is unknown which."""


def _check_order(base_offset: int, epoch: int, offset_min: int, epoch_min: int, dense_from: int) -> None:
    if base_offset != offset_min and not offset_min < base_offset <= dense_from:
        raise _OutOfOrder(f"offset {base_offset} where {offset_min} was expected")
    if epoch < NO_EPOCH or 0 <= epoch < epoch_min:
        raise _OutOfOrder(f"leader epoch {epoch} follows {epoch_min}")


def verify_read(
    segment: Segment, position: int, size: int, offset: int, end_offset: int, *, is_whole: bool,
    epoch_max: int, history: History = NO_HISTORY,
) -> tuple[BatchHeader | None, int]:  # fmt: skip
    """Check what a reader of ``offset`` is about to get from a segment whose records end before
    ``end_offset``; returns the first batch's header, and how many bytes of intact batches there are. Raises
    :class:`DamagedSegment`. ``is_whole``: it ends with a batch. ``epoch_max``: the epoch of what follows the
    segment.
    """
    # And the beginning of the next batch: the CRC covers neither offset nor length nor epoch.
    end = min(position + size + ORDER_SIZE, segment.size)
    data = memoryview(segment.file().read_at(position, end - position))
    to_the_end = end >= segment.size
    expected = segment.base_offset
    if position and len(data) >= batches.HEADER_SIZE:
        # Its position was found by hops; where no offset is missing, it holds the requested one.
        expected = max(expected, batches.parse_prefix(data)[0])
        if offset < expected and expected > segment.dense_from:
            raise DamagedSegment(f"{segment!r} is damaged: {expected} where {offset} was expected", offset)
    found = check(
        data, expected, end_offset, to_the_end=to_the_end, epoch_max=epoch_max,
        limit=None if to_the_end else size, dense_from=segment.dense_from, history=history,
    )  # fmt: skip
    if not found.damage and is_whole and found.whole_bytes < size:
        found = found._replace(damage="a batch reaches over the beginning of another")
    if found.damage:
        damaged_from = found.next_offset if found.whole_bytes else offset
        raise DamagedSegment(f"{segment!r} is damaged: {found.damage}", damaged_from)
    header = batches.parse_header(data) if len(data) >= batches.HEADER_SIZE else None
    return header, found.whole_bytes


def pieces(
    segment: Segment, end_offset: int, epoch_max: int = ANY_EPOCH
) -> Generator[Piece, VerifiedPiece | None, None]:
    """The whole segment, piece by piece; the caller reports the result of each piece with ``send``."""
    position, next_offset = 0, segment.base_offset
    wanted = PIECE_BYTES
    while position < segment.size:
        size = min(wanted, segment.size - position)
        region = Region(segment.file(), position, size)
        is_last = position + size >= segment.size
        found: VerifiedPiece | None = yield Piece(
            segment, region, next_offset, end_offset, is_last, epoch_max, segment.dense_from
        )
        if found is None or found.damage:
            return
        if not found.whole_bytes:
            wanted *= 2  # One batch is larger than the piece.
            continue
        position, next_offset, wanted = position + found.whole_bytes, found.next_offset, PIECE_BYTES
