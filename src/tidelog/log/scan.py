"""Iterates over the batches of a segment file: by hops over headers, or by reading and checking every byte.

Hopping reads a few kilobytes anywhere in the log. It trusts each header, but compares it with its neighbours:
the CRC covers neither offset nor length of a batch, and a wrong one would skip records silently. Checking
trusts nothing: recovery uses it to find the last intact batch.
"""

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import NamedTuple

from tidelog.config.kinds import LONG_MAX
from tidelog.errors import CorruptBatch
from tidelog.log.storage import File
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, BatchHeader

# Holds the batches between two index entries in one read if batches are small; large ones need two reads.
_HOP_BYTES = 8192
_CHECK_BYTES = 1 << 20
_SPAN = Struct(">qi11xi")  # base offset, length, last offset delta
ANY = -1  # As the last offset of the first batch: unknown.


class BrokenChain(CorruptBatch):
    """A batch does not lead to the next one: its header, or that of the batch before it, is damaged."""

    def __init__(self, message: str, position: int, offset: int) -> None:
        super().__init__(message)
        self.position = position  # Batches before it are consistent,
        self.offset = offset  # and none of them reaches this offset.


class WrongPlace(Exception):
    """No batch with the expected last offset begins there: the index is wrong, not the records."""


class BatchPosition(NamedTuple):
    """Position of a batch."""

    position: int
    size: int  # 0 if there is none.
    base_offset: int  # Of the batch; where the search ended if there is none.
    previous: int  # Position of the batch before it; its own if the search began with it.


# What Place._make does, without a call: every read from the middle of a segment needs one.
_make_place: Callable[[tuple[int, int, int, int]], BatchPosition] = partial(tuple.__new__, BatchPosition)


def find_batch(
    file: File,
    position: int,
    end: int,
    offset: int,
    next_offset: int,
    known_last: int = ANY,
    dense_from: int = LONG_MAX,
) -> BatchPosition:
    """The first batch at or after ``position`` that ends at or after ``offset``.

    Size 0 at ``end`` if there is none before. No batch begins before ``next_offset``; ``known_last`` is the
    last offset of the one at ``position`` according to an index. After ``dense_from`` no offset is missing
    between batches. Raises WrongPlace if the index is wrong, and BrokenChain if headers do not fit together.
    """
    unpack = _SPAN.unpack_from
    previous, previous_next = position, next_offset
    if known_last != ANY and end - position < HEADER_SIZE:
        raise WrongPlace(f"offset {known_last} is not at position {position}")
    while position < end:
        chunk = file.read_at(position, min(_HOP_BYTES, end - position))
        last = len(chunk) - HEADER_SIZE
        at = 0
        while at <= last:
            base_offset, length, last_delta = unpack(chunk, at)
            batch_end = base_offset + last_delta
            if known_last != ANY:
                if batch_end != known_last:
                    raise WrongPlace(f"offset {known_last} is not at position {position}")
                known_last, next_offset = ANY, max(next_offset, base_offset)
            size = length + LENGTH_PREFIX_SIZE
            if (
                (base_offset != next_offset and not next_offset < base_offset <= dense_from)
                or last_delta < 0
                or size < HEADER_SIZE
                or position + at + size > end
            ):
                if base_offset == next_offset:
                    previous, previous_next = position + at, next_offset
                raise _broken(position + at, base_offset, size, next_offset, end, previous, previous_next)
            if batch_end >= offset:
                return _make_place((position + at, size, base_offset, previous))
            previous, previous_next = position + at, next_offset
            next_offset = batch_end + 1
            at += size
        if at == 0:
            raise BrokenChain(f"no whole header at position {position}", previous, previous_next)
        position += at
    return BatchPosition(end, 0, next_offset, previous)


def headers(
    file: File,
    position: int,
    end: int,
    next_offset: int = 0,
    known_last: int = ANY,
    dense_from: int = LONG_MAX,
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch in ``[position, end)``, which must be whole; raises as
    :func:`find_batch` does.
    """
    previous, previous_next = position, next_offset
    if known_last != ANY and end - position < HEADER_SIZE:
        raise WrongPlace(f"offset {known_last} is not at position {position}")
    while position < end:
        chunk = file.read_at(position, min(_HOP_BYTES, end - position))
        last = len(chunk) - HEADER_SIZE
        at = 0
        while at <= last:
            header = batches.parse_header(chunk, at)
            if known_last != ANY:
                if header.last_offset != known_last:
                    raise WrongPlace(f"offset {known_last} is not at position {position}")
                known_last, next_offset = ANY, max(next_offset, header.base_offset)
            size = header.size
            if (
                (header.base_offset != next_offset and not next_offset < header.base_offset <= dense_from)
                or header.last_offset_delta < 0
                or size < HEADER_SIZE
                or position + at + size > end
            ):
                if header.base_offset == next_offset:
                    previous, previous_next = position + at, next_offset
                raise _broken(
                    position + at, header.base_offset, size, next_offset, end, previous, previous_next
                )
            yield position + at, header
            previous, previous_next = position + at, next_offset
            next_offset = header.next_offset
            at += size
        if at == 0:
            raise BrokenChain(f"no whole header at position {position}", previous, previous_next)
        position += at


def _broken(
    position: int, base_offset: int, size: int, next_offset: int, end: int, whole: int, whole_offset: int
) -> BrokenChain:
    """If a batch does not begin at the expected offset, the one before it may have a wrong length or offset:
    then neither counts as intact.
    """
    return BrokenChain(
        f"position {position}: a batch claims {size} bytes from offset {base_offset} on;"
        f" {end - position} are there, and offset {next_offset} was expected",
        whole, whole_offset,
    )  # fmt: skip


def header_at(file: File, position: int, end: int) -> BatchHeader | None:
    """The bytes at ``position`` as a header; None if too few are left."""
    data = file.read_at(position, min(HEADER_SIZE, end - position))
    return batches.parse_header(data) if len(data) == HEADER_SIZE else None


def checked_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch, every byte of it checked; raises :class:`CorruptBatch` at the first
    torn or damaged one.
    """
    while position < end:
        chunk = memoryview(file.read_at(position, min(_CHECK_BYTES, end - position)))
        if not chunk:
            raise CorruptBatch(f"the segment ends at position {position}, {end} was expected")
        at = 0
        while at < len(chunk):
            size = _claimed_size(chunk, at)
            if size > len(chunk) - at and position + len(chunk) < end:
                break  # The rest of it was not read yet.
            yield position + at, batches.check(chunk, at)
            at += size
        if at == 0:
            # One batch is larger than the chunk: read exactly it, or what the file has of it.
            chunk = memoryview(file.read_at(position, min(size, end - position)))
            yield position, batches.check(chunk)
            at = size
        position += at


def whole_headers(
    file: File, end: int, next_offset: int, offset_max: int, dense_from: int = LONG_MAX
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch before ``end``, every byte of it checked and in order; raises
    :class:`BrokenChain` at the first that is not. No batch ends after ``offset_max``.

    The CRC does not cover the offset of a batch, so each is held back until the next one fits.
    """
    position, previous, previous_next = 0, 0, next_offset
    held: tuple[int, BatchHeader] | None = None
    try:
        for at, header in checked_headers(file, 0, end):
            base_offset = header.base_offset
            if base_offset != next_offset and not next_offset < base_offset <= dense_from:
                raise _broken(at, header.base_offset, header.size, next_offset, end, previous, previous_next)
            if held is not None:
                yield held
            if header.last_offset > offset_max:
                raise BrokenChain(
                    f"position {at}: offset {header.last_offset} does not belong here", at, next_offset
                )
            held = at, header
            previous, previous_next = at, next_offset
            position, next_offset = at + header.size, header.next_offset
    except BrokenChain:
        raise
    except CorruptBatch as error:
        if held is not None:
            yield held
        raise BrokenChain(f"position {position}: {error.message}", position, next_offset) from error
    if held is not None:
        yield held


def _claimed_size(chunk: memoryview, at: int) -> int:
    """Size of the batch at ``at`` by its own header; one header's size if not even that was read."""
    if len(chunk) - at < LENGTH_PREFIX_SIZE:
        return HEADER_SIZE
    size = batches.parse_prefix(chunk, at)[1]
    if size < HEADER_SIZE:
        raise CorruptBatch(f"the batch claims {size} bytes")
    return size
