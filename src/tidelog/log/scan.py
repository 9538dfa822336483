"""Walking over the batches of a segment file: by hops over headers, or by reading and checking every byte.

Hopping trusts the file (it was checked when it was written); it reads a few kilobytes wherever it stands in
the log. Checking trusts nothing: it is how recovery finds the last whole batch.
"""

from collections.abc import Iterator
from struct import Struct

from tidelog.errors import CorruptBatch
from tidelog.log.storage import File
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, BatchHeader

# Holds the batches between two index entries in one read when batches are small; large ones need two reads.
_HOP_BYTES = 8192
_CHECK_BYTES = 1 << 20
_SPAN = Struct(">qi11xi")  # base offset, length, last offset delta


def find_batch(file: File, position: int, end: int, offset: int) -> tuple[int, int]:
    """(position, size) of the first batch at or behind ``position`` that ends at or behind ``offset``.

    (``end``, 0) when there is none before ``end``.
    """
    unpack = _SPAN.unpack_from
    while position < end:
        chunk = file.read_at(position, min(_HOP_BYTES, end - position))
        last = len(chunk) - HEADER_SIZE
        at = 0
        while at <= last:
            base_offset, length, last_delta = unpack(chunk, at)
            if base_offset + last_delta >= offset:
                return position + at, length + LENGTH_PREFIX_SIZE
            if length < HEADER_SIZE - LENGTH_PREFIX_SIZE:
                raise CorruptBatch(f"a batch at position {position + at} claims {length} bytes")
            at += length + LENGTH_PREFIX_SIZE
        if at == 0:
            raise CorruptBatch(f"the segment ends inside a batch header at position {position}")
        position += at
    return end, 0


def headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in ``[position, end)``; stops before one that is not whole."""
    while end - position >= HEADER_SIZE:
        chunk = file.read_at(position, min(_HOP_BYTES, end - position))
        last = len(chunk) - HEADER_SIZE
        at = 0
        while at <= last:
            header = batches.parse_header(chunk, at)
            size = header.size
            if size < HEADER_SIZE or position + at + size > end:
                return
            yield position + at, header
            at += size
        if at == 0:
            return
        position += at


def checked_headers(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch, every byte of it checked; raises :class:`CorruptBatch` where the
    first one is torn or damaged."""
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
            # One batch is larger than the chunk: read exactly it, or what the file still has of it.
            chunk = memoryview(file.read_at(position, min(size, end - position)))
            yield position, batches.check(chunk)
            at = size
        position += at


def _claimed_size(chunk: memoryview, at: int) -> int:
    """Size of the batch at ``at`` by its own account; one header's size where not even that was read."""
    if len(chunk) - at < LENGTH_PREFIX_SIZE:
        return HEADER_SIZE
    size = batches.parse_prefix(chunk, at)[1]
    if size < HEADER_SIZE:
        raise CorruptBatch(f"the batch claims {size} bytes")
    return size
