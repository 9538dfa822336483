"""Rows of Arrow columns become records of open batches: the writer's loops, written for numba.

Owns the layout of a record as it is written, the partition of a key, and the filling of batches. Addresses
and numbers only; what is compressed, sealed and sent is :mod:`tidelog.spark.writing.encoder`'s business, and
so is every rule that is not needed once for each row.

A chunk is the room for one batch: 61 bytes left free for the header, records behind them. Each partition (a
*slot*) has at most one open chunk. A chunk that cannot take the next record is sealed, that is put behind
those that wait to be sent, and the slot takes a fresh one; with none left the loop stops at that row, so that
the arena is all the memory there is, however many rows come.

Imported only where machine code has to be made (:mod:`tidelog.spark.kernel.native`).
"""

from typing import Any

import numba
import numpy as np

from tidelog.spark.kernel.machine import CHUNK_BYTES, copy_chunk, copy_run, load_8, load_64, store_8, store_64
from tidelog.spark.writing import places as p

_HEADER_SIZE = 61
_SHORT_BYTES = 512  # above this a call into the C library is the faster copy
_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_32_BITS = 0xFFFFFFFF


def _compiled(signature: str) -> Any:
    return numba.njit(signature, boundscheck=False, nogil=True, error_model="numpy")


@_compiled("int64(int64)")
def _varint_size(value):  # type: ignore[no-untyped-def]
    rest = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while rest >= np.uint64(0x80):
        rest >>= np.uint64(7)
        size += 1
    return size


@_compiled("int64(int64, int64)")
def _put_varint(at, value):  # type: ignore[no-untyped-def]
    """The address after it."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(0x80):
        store_8(at, np.int64((rest & np.uint64(0x7F)) | np.uint64(0x80)))
        rest >>= np.uint64(7)
        at += 1
    store_8(at, np.int64(rest))
    return at + 1


@_compiled("int64(int64, int64)")
def _murmur2(at, size):  # type: ignore[no-untyped-def]
    """The hash of the Java client's partitioner, as a 31-bit number."""
    h = (_SEED ^ size) & _32_BITS
    end = at + (size & ~3)
    while at < end:
        k = load_8(at) | load_8(at + 1) << 8 | load_8(at + 2) << 16 | load_8(at + 3) << 24
        k = (k * _FACTOR) & _32_BITS
        k ^= k >> 24
        k = (k * _FACTOR) & _32_BITS
        h = ((h * _FACTOR) & _32_BITS) ^ k
        at += 4
    rest = size & 3
    if rest == 3:
        h ^= load_8(at + 2) << 16
    if rest >= 2:
        h ^= load_8(at + 1) << 8
    if rest >= 1:
        h = ((h ^ load_8(at)) * _FACTOR) & _32_BITS
    h ^= h >> 13
    h = (h * _FACTOR) & _32_BITS
    return (h ^ h >> 15) & 0x7FFFFFFF


@_compiled("int64(int64)")
def murmur2(told):  # type: ignore[no-untyped-def]
    """Of the bytes at an address."""
    return _murmur2(load_64(told), load_64(told + 8))


@_compiled("int64(int64, int64, int64)")
def _size_at(offsets, valid, row):  # type: ignore[no-untyped-def]
    """Bytes of the row's value, -1 for null."""
    if offsets == 0 or (valid != 0 and load_8(valid + row) == 0):
        return -1
    return load_64(offsets + 8 * row + 8) - load_64(offsets + 8 * row)


@_compiled("int64(int64, int64, int64, int64)")
def _put_bytes(at, source, size, source_end):  # type: ignore[no-untyped-def]
    """Length and bytes; returns the address after them."""
    at = _put_varint(at, size)
    if size <= 0:
        return at
    if size > _SHORT_BYTES or source + size + CHUNK_BYTES > source_end:
        copy_run(at, source, size)
    else:
        done = 0
        while done < size:
            copy_chunk(at + done, source + done)
            done += CHUNK_BYTES
    return at + size


@_compiled("int64(int64, int64, int64)")
def _put_cell(at, column, row):  # type: ignore[no-untyped-def]
    offsets = load_64(column + 8 * p.OFFSETS)
    size = _size_at(offsets, load_64(column + 8 * p.VALID), row)
    source = load_64(column + 8 * p.DATA)
    if size > 0:
        source += load_64(offsets + 8 * row)
    return _put_bytes(at, source, size, load_64(column + 8 * p.DATA_END))


@_compiled("int64(int64, int64)")
def _cell_size(column, row):  # type: ignore[no-untyped-def]
    return _size_at(load_64(column + 8 * p.OFFSETS), load_64(column + 8 * p.VALID), row)


@_compiled("int64(int64, int64)")
def _headers_size(told, row):  # type: ignore[no-untyped-def]
    """Encoded bytes of the row's headers with their count; -1 where one has no key."""
    headers = load_64(told + 8 * p.HEADERS)
    first, last = load_64(headers + 8 * row), load_64(headers + 8 * row + 8)
    total = _varint_size(last - first)
    for index in range(first, last):
        key_size = _cell_size(told + 8 * p.HEADER_KEY, index)
        if key_size < 0:
            return -1
        value_size = _cell_size(told + 8 * p.HEADER_VALUE, index)
        total += _varint_size(key_size) + key_size + _varint_size(value_size) + max(value_size, 0)
    return total


@_compiled("int64(int64, int64, int64)")
def _put_headers(told, at, row):  # type: ignore[no-untyped-def]
    headers = load_64(told + 8 * p.HEADERS)
    first, last = load_64(headers + 8 * row), load_64(headers + 8 * row + 8)
    at = _put_varint(at, last - first)
    for index in range(first, last):
        at = _put_cell(at, told + 8 * p.HEADER_KEY, index)
        at = _put_cell(at, told + 8 * p.HEADER_VALUE, index)
    return at


@_compiled("int64(int64, int64, int64)")
def _sticky_partition(told, topic, size):  # type: ignore[no-untyped-def]
    """The partition of a record without a key: one partition for a while, then the next."""
    sticky = load_64(told + 8 * p.STICKY) + 8 * topic
    sent = load_64(told + 8 * p.STICKY_BYTES) + 8 * topic
    if load_64(sent) >= load_64(told + 8 * p.STICKY_BYTES_MAX):
        count = load_64(load_64(told + 8 * p.PARTITION_COUNT) + 8 * topic)
        store_64(sticky, (load_64(sticky) + 1) % count)
        store_64(sent, 0)
    store_64(sent, load_64(sent) + max(size, 0))
    return load_64(sticky)


@_compiled("int64(int64)")
def assign(told):  # type: ignore[no-untyped-def]
    """The slot of each row, as the Java client decides: the column, else the key's hash, else the sticky
    partition.

    Returns how many rows have none.
    """
    key_offsets, key_data = load_64(told + 8 * (p.KEY + p.OFFSETS)), load_64(told + 8 * (p.KEY + p.DATA))
    key_valid = load_64(told + 8 * (p.KEY + p.VALID))
    topics, partitions = load_64(told + 8 * p.TOPICS), load_64(told + 8 * p.PARTITIONS)
    first_slot, counts = load_64(told + 8 * p.FIRST_SLOT), load_64(told + 8 * p.PARTITION_COUNT)
    chosen = load_64(told + 8 * p.CHOSEN)
    refused = 0
    for row in range(load_64(told + 8 * p.START), load_64(told + 8 * p.END)):
        topic = load_64(topics + 8 * row) if topics != 0 else 0
        if topic < 0:
            store_64(chosen + 8 * row, -p.NO_TOPIC)
            refused += 1
            continue
        count = load_64(counts + 8 * topic)
        partition = load_64(partitions + 8 * row) if partitions != 0 else -1
        if partition >= count:
            store_64(chosen + 8 * row, -p.NO_SUCH_PARTITION)
            refused += 1
            continue
        if partition < 0:
            size = _size_at(key_offsets, key_valid, row)
            if size >= 0:
                partition = _murmur2(key_data + load_64(key_offsets + 8 * row), size) % count
            else:
                partition = _sticky_partition(told, topic, _cell_size(told + 8 * p.VALUE, row))
        store_64(chosen + 8 * row, load_64(first_slot + 8 * topic) + partition)
    return refused


@_compiled("int64(int64, int64, int64)")
def _open(told, slot, timestamp):  # type: ignore[no-untyped-def]
    """A free chunk for the slot, or -1."""
    free_count = load_64(told + 8 * p.FREE_COUNT) - 1
    if free_count < 0:
        return -1
    store_64(told + 8 * p.FREE_COUNT, free_count)
    chunk = load_64(load_64(told + 8 * p.FREE) + 8 * free_count)
    store_64(load_64(told + 8 * p.OPEN_CHUNK) + 8 * slot, chunk)
    store_64(load_64(told + 8 * p.SLOT) + 8 * chunk, slot)
    store_64(load_64(told + 8 * p.USED) + 8 * chunk, _HEADER_SIZE)
    store_64(load_64(told + 8 * p.COUNT) + 8 * chunk, 0)
    store_64(load_64(told + 8 * p.BASE_TIMESTAMP) + 8 * chunk, timestamp)
    store_64(load_64(told + 8 * p.MAX_TIMESTAMP) + 8 * chunk, timestamp)
    return chunk


@_compiled("int64(int64)")
def fill(told):  # type: ignore[no-untyped-def]
    """Encode each row into its chosen slot; returns why it stopped, and in START at which row."""
    key_offsets, key_valid = load_64(told + 8 * (p.KEY + p.OFFSETS)), load_64(told + 8 * (p.KEY + p.VALID))
    key_data, key_end = load_64(told + 8 * (p.KEY + p.DATA)), load_64(told + 8 * (p.KEY + p.DATA_END))
    value_offsets = load_64(told + 8 * (p.VALUE + p.OFFSETS))
    value_valid = load_64(told + 8 * (p.VALUE + p.VALID))
    value_data, value_end = load_64(told + 8 * (p.VALUE + p.DATA)), load_64(told + 8 * (p.VALUE + p.DATA_END))
    timestamps, now = load_64(told + 8 * p.TIMESTAMPS), load_64(told + 8 * p.NOW)
    has_headers = load_64(told + 8 * p.HEADERS) != 0
    chosen, open_chunk = load_64(told + 8 * p.CHOSEN), load_64(told + 8 * p.OPEN_CHUNK)
    arena, room = load_64(told + 8 * p.ARENA), load_64(told + 8 * p.CHUNK_BYTES) - p.SLACK_BYTES
    used, counts = load_64(told + 8 * p.USED), load_64(told + 8 * p.COUNT)
    bases, newest = load_64(told + 8 * p.BASE_TIMESTAMP), load_64(told + 8 * p.MAX_TIMESTAMP)
    headers_size = 1
    reason = p.DONE
    row = load_64(told + 8 * p.START)
    end = load_64(told + 8 * p.END)
    while row < end:
        slot = load_64(chosen + 8 * row)
        timestamp = load_64(timestamps + 8 * row) if timestamps != 0 else now
        key_size = _size_at(key_offsets, key_valid, row)
        value_size = _size_at(value_offsets, value_valid, row)
        if has_headers:
            headers_size = _headers_size(told, row)
            if headers_size < 0:
                reason = p.HEADER_WITHOUT_KEY
                break
        body = 1 + headers_size + _varint_size(key_size) + max(key_size, 0)
        body += _varint_size(value_size) + max(value_size, 0)

        chunk = load_64(open_chunk + 8 * slot)
        if chunk >= 0 and load_64(used + 8 * chunk) + body > room:
            sealed = load_64(told + 8 * p.SEALED_COUNT)
            store_64(load_64(told + 8 * p.SEALED) + 8 * sealed, chunk)
            store_64(told + 8 * p.SEALED_COUNT, sealed + 1)
            store_64(open_chunk + 8 * slot, -1)
            chunk = -1
        if chunk < 0:
            if _HEADER_SIZE + body > room:
                reason = p.TOO_LARGE
                break
            chunk = _open(told, slot, timestamp)
            if chunk < 0:
                reason = p.NO_ROOM
                break

        time_delta = timestamp - load_64(bases + 8 * chunk)
        offset_delta = load_64(counts + 8 * chunk)
        body += _varint_size(time_delta) + _varint_size(offset_delta)
        start = arena + chunk * (room + p.SLACK_BYTES)
        at = _put_varint(start + load_64(used + 8 * chunk), body)
        store_8(at, 0)
        at = _put_varint(at + 1, time_delta)
        at = _put_varint(at, offset_delta)
        source = key_data + (load_64(key_offsets + 8 * row) if key_size > 0 else 0)
        at = _put_bytes(at, source, key_size, key_end)
        source = value_data + (load_64(value_offsets + 8 * row) if value_size > 0 else 0)
        at = _put_bytes(at, source, value_size, value_end)
        if has_headers:
            at = _put_headers(told, at, row)
        else:
            store_8(at, 0)
            at += 1
        store_64(used + 8 * chunk, at - start)
        store_64(counts + 8 * chunk, offset_delta + 1)
        if timestamp > load_64(newest + 8 * chunk):
            store_64(newest + 8 * chunk, timestamp)
        row += 1
    store_64(told + 8 * p.START, row)
    return reason
