"""The loops over batches and records, written for numba: addresses and numbers, no objects.

Input is never trusted: every length is checked against the end of its record, every record against the end of
its batch; a loop that finds an error returns a negative number that says where. Varints are read before they
are checked, by ten bytes at most: :data:`~tidelog.spark.kernel.slots.PADDING_BYTES` allow that.

Imported only to compile machine code (:mod:`tidelog.spark.kernel.native`).
"""

from typing import Any

import numba
import numpy as np

from tidelog.spark.kernel import slots as s
from tidelog.spark.kernel.machine import (
    CHUNK_BYTES,
    big_16,
    big_32,
    big_64,
    copy_chunk,
    copy_run,
    load_8,
    load_64,
    store_8,
    store_32,
    store_64,
)

_HEADER_SIZE = 61
_RECORD_SIZE_MIN = 6  # attributes, two deltas, two lengths, number of headers
_LOG_APPEND_TIME = 8
_SHORT_BYTES = 512  # above this a call into the C library is faster


def _compiled(signature: str) -> Any:
    return numba.njit(signature, boundscheck=False, nogil=True, error_model="numpy")


@_compiled("int64(int64)")
def outline(told):  # type: ignore[no-untyped-def]
    """The number of whole batches in fetched bytes; one row of the table for each."""
    data = load_64(told + 8 * s.OUTLINE_DATA)
    size = load_64(told + 8 * s.OUTLINE_SIZE)
    table = load_64(told + 8 * s.OUTLINE_TABLE)
    rows = load_64(told + 8 * s.OUTLINE_ROWS)
    position = load_64(told + 8 * s.OUTLINE_POSITION)
    stop = s.COMPLETE
    kinds = 0
    records = 0
    count = 0
    while size - position >= _HEADER_SIZE:
        at = data + position
        batch_size = big_32(at + 8) + 12
        if load_8(at + 16) != 2:
            stop = s.BAD_MAGIC
            break
        if batch_size < _HEADER_SIZE or big_32(at + 57) < 0:
            stop = s.BAD_SIZE
            break
        if batch_size > size - position:
            break
        if count == rows:
            stop = s.TABLE_FULL
            break
        row = table + 8 * s.TABLE_COLUMNS * count
        base_offset = big_64(at)
        store_64(row + 8 * s.POSITION, position)
        store_64(row + 8 * s.SIZE, batch_size)
        store_64(row + 8 * s.BASE_OFFSET, base_offset)
        store_64(row + 8 * s.LAST_OFFSET, base_offset + big_32(at + 23))
        store_64(row + 8 * s.ATTRIBUTES, big_16(at + 21))
        store_64(row + 8 * s.BASE_TIMESTAMP, big_64(at + 27))
        store_64(row + 8 * s.MAX_TIMESTAMP, big_64(at + 35))
        store_64(row + 8 * s.PRODUCER_ID, big_64(at + 43))
        store_64(row + 8 * s.COUNT, big_32(at + 57))
        store_64(row + 8 * s.CRC, big_32(at + 17) & 0xFFFFFFFF)
        store_64(row + 8 * s.PAYLOAD_START, at + _HEADER_SIZE)
        store_64(row + 8 * s.PAYLOAD_END, at + batch_size)
        kinds |= big_16(at + 21)
        records += big_32(at + 57)
        position += batch_size
        count += 1
    store_64(told + 8 * s.OUTLINE_POSITION, position)
    store_64(told + 8 * s.OUTLINE_STOP, stop)
    store_64(told + 8 * s.OUTLINE_KINDS, kinds)
    store_64(told + 8 * s.OUTLINE_RECORDS, records)
    return count


@_compiled("UniTuple(int64, 2)(int64)")
def _long_varint(at):  # type: ignore[no-untyped-def]
    value = np.uint64(0)
    shift = np.uint64(0)
    for _ in range(10):
        byte = load_8(at)
        at += 1
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += np.uint64(7)
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at


@_compiled("UniTuple(int64, 2)(int64)")
def _varint(at):  # type: ignore[no-untyped-def]
    """(number, address after it). Most numbers in a record take one or two bytes."""
    byte = load_8(at)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    second = load_8(at + 1)
    if second < 0x80:
        value = (byte & 0x7F) | (second << 7)
        return (value >> 1) ^ -(value & 1), at + 2
    return _long_varint(at)


@_compiled("void(int64, int64, int64)")
def _copy(target, source, size):  # type: ignore[no-untyped-def]
    if size > _SHORT_BYTES:
        copy_run(target, source, size)
        return
    done = 0
    while done < size:
        copy_chunk(target + done, source + done)
        done += CHUNK_BYTES


@_compiled("int64(int64, int64, int64, int64, int64, int64, int64)")
def _put_bytes(ends, valid, content, row, size, start, length):  # type: ignore[no-untyped-def]
    """Append a key or value to its column, which has ``size`` bytes; returns the new size."""
    store_8(valid + row, np.int64(length >= 0))
    if length > 0:
        _copy(content + size, start, length)
        size += length
    store_32(ends + 4 * row + 4, size)
    return size


@_compiled("int64(int64, int64, int64)")
def _fill_batch(told, batch, row):  # type: ignore[no-untyped-def]
    """Rows from ``row`` on; returns the new number of rows, or -1: the batch is damaged."""
    start_offset = load_64(told + 8 * s.START_OFFSET)
    end_offset = load_64(told + 8 * s.END_OFFSET)
    wanted = load_64(told + 8 * s.WANTED)
    offsets = load_64(told + 8 * s.OFFSETS)
    timestamps = load_64(told + 8 * s.TIMESTAMPS)
    types = load_64(told + 8 * s.TYPES)
    key_ends = load_64(told + 8 * s.KEY_ENDS)
    key_valid = load_64(told + 8 * s.KEY_VALID)
    key_bytes = load_64(told + 8 * s.KEY_BYTES)
    value_ends = load_64(told + 8 * s.VALUE_ENDS)
    value_valid = load_64(told + 8 * s.VALUE_VALID)
    value_bytes = load_64(told + 8 * s.VALUE_BYTES)
    spans = load_64(told + 8 * s.HEADER_SPANS)
    key_size = load_64(told + 8 * s.KEY_SIZE)
    key_nulls = load_64(told + 8 * s.KEY_NULLS)
    value_size = load_64(told + 8 * s.VALUE_SIZE)
    value_nulls = load_64(told + 8 * s.VALUE_NULLS)
    base_offset = load_64(batch + 8 * s.BASE_OFFSET)
    base_timestamp = load_64(batch + 8 * s.BASE_TIMESTAMP)
    append_time = (load_64(batch + 8 * s.ATTRIBUTES) & _LOG_APPEND_TIME) != 0
    if append_time:
        base_timestamp = load_64(batch + 8 * s.MAX_TIMESTAMP)
    at = load_64(batch + 8 * s.PAYLOAD_START)
    end = load_64(batch + 8 * s.PAYLOAD_END)
    for _ in range(load_64(batch + 8 * s.COUNT)):
        size, at = _varint(at)
        # Differences, never sums: a length of 2**62 added to an address would come out small.
        if size < _RECORD_SIZE_MIN or size > end - at:
            return -1
        record_end = at + size
        timestamp_delta, at = _varint(at + 1)
        offset_delta, at = _varint(at)
        offset = base_offset + offset_delta
        if offset < start_offset or offset >= end_offset:
            at = record_end
            continue
        length, at = _varint(at)
        if length < -1 or length > record_end - at:
            return -1
        if wanted & s.WANT_KEY:
            key_size = _put_bytes(key_ends, key_valid, key_bytes, row, key_size, at, length)
            key_nulls += length < 0
        if wanted & (s.WANT_VALUE | s.WANT_HEADERS):
            length, at = _varint(at + max(length, 0))
            if length < -1 or length > record_end - at:
                return -1
            if wanted & s.WANT_VALUE:
                value_size = _put_bytes(value_ends, value_valid, value_bytes, row, value_size, at, length)
                value_nulls += length < 0
            if wanted & s.WANT_HEADERS:
                store_64(spans + 16 * row, at + max(length, 0))
                store_64(spans + 16 * row + 8, record_end)
        if wanted & s.WANT_OFFSET:
            store_64(offsets + 8 * row, offset)
        if wanted & s.WANT_TIMESTAMP:
            delta = 0 if append_time else timestamp_delta
            # A producer that counts in nanoseconds exceeds the range of microseconds: its limit, not a time
            # that is merely wrong.
            ms = min(max(base_timestamp + delta, -s.TIMESTAMP_MS_MAX), s.TIMESTAMP_MS_MAX)
            store_64(timestamps + 8 * row, ms * 1000)
        if wanted & s.WANT_TYPE:
            store_32(types + 4 * row, np.int64(append_time))
        row += 1
        at = record_end
    store_64(told + 8 * s.KEY_SIZE, key_size)
    store_64(told + 8 * s.KEY_NULLS, key_nulls)
    store_64(told + 8 * s.VALUE_SIZE, value_size)
    store_64(told + 8 * s.VALUE_NULLS, value_nulls)
    return row if at == end else -1


@_compiled("int64(int64)")
def fill(told):  # type: ignore[no-untyped-def]
    """The number of rows, or -1 - the number of the damaged batch.

    Columns that are not selected are neither read nor written.
    """
    wanted = load_64(told + 8 * s.WANTED)
    if wanted & s.WANT_KEY:
        store_32(load_64(told + 8 * s.KEY_ENDS), 0)
    if wanted & s.WANT_VALUE:
        store_32(load_64(told + 8 * s.VALUE_ENDS), 0)
    for result in range(s.KEY_SIZE, s.FILL_SLOTS):
        store_64(told + 8 * result, 0)
    table = load_64(told + 8 * s.TABLE)
    row = 0
    for index in range(load_64(told + 8 * s.BATCHES)):
        row = _fill_batch(told, table + 8 * s.TABLE_COLUMNS * index, row)
        if row < 0:
            return -1 - index
    return row


@_compiled("int64(int64)")
def measure_headers(told):  # type: ignore[no-untyped-def]
    """0, or -1 - the row whose headers are damaged; computes how much room they need."""
    spans = load_64(told + 8 * s.SPANS)
    total = 0
    names = 0
    contents = 0
    nulls = 0
    empty = 0
    for row in range(load_64(told + 8 * s.SPAN_ROWS)):
        end = load_64(spans + 16 * row + 8)
        entries, at = _varint(load_64(spans + 16 * row))
        if entries < 0:
            return -1 - row
        for _ in range(entries):
            size, at = _varint(at)
            if size < 0 or size > end - at:
                return -1 - row
            at += size
            names += size
            size, at = _varint(at)
            if size < -1 or size > end - at:
                return -1 - row
            if size < 0:
                nulls += 1
            else:
                at += size
                contents += size
        if at != end:
            return -1 - row
        total += entries
        empty += entries == 0
    store_64(told + 8 * s.ENTRIES, total)
    store_64(told + 8 * s.NAME_SIZE, names)
    store_64(told + 8 * s.CONTENT_SIZE, contents)
    store_64(told + 8 * s.CONTENT_NULLS, nulls)
    store_64(told + 8 * s.EMPTY_LISTS, empty)
    return 0


@_compiled("int64(int64)")
def fill_headers(told):  # type: ignore[no-untyped-def]
    """The headers of the measured rows, as lists of names and contents."""
    spans = load_64(told + 8 * s.SPANS)
    list_ends = load_64(told + 8 * s.LIST_ENDS)
    list_valid = load_64(told + 8 * s.LIST_VALID)
    name_ends = load_64(told + 8 * s.NAME_ENDS)
    name_bytes = load_64(told + 8 * s.NAME_BYTES)
    content_ends = load_64(told + 8 * s.CONTENT_ENDS)
    content_valid = load_64(told + 8 * s.CONTENT_VALID)
    content_bytes = load_64(told + 8 * s.CONTENT_BYTES)
    entry = 0
    names = 0
    contents = 0
    store_32(list_ends, 0)
    store_32(name_ends, 0)
    store_32(content_ends, 0)
    for row in range(load_64(told + 8 * s.SPAN_ROWS)):
        entries, at = _varint(load_64(spans + 16 * row))
        store_8(list_valid + row, np.int64(entries > 0))
        for _ in range(entries):
            size, at = _varint(at)
            _copy(name_bytes + names, at, size)
            at += size
            names += size
            size, at = _varint(at)
            store_8(content_valid + entry, np.int64(size >= 0))
            if size > 0:
                _copy(content_bytes + contents, at, size)
                at += size
                contents += size
            entry += 1
            store_32(name_ends + 4 * entry, names)
            store_32(content_ends + 4 * entry, contents)
        store_32(list_ends + 4 * row + 4, entry)
    return entry


@_compiled("int64(int64)")
def pack(told):  # type: ignore[no-untyped-def]
    """Bytes that are 0 or 1 to bits, lowest first, as in Arrow."""
    source = load_64(told + 8 * s.PACK_BYTES)
    count = load_64(told + 8 * s.PACK_COUNT)
    target = load_64(told + 8 * s.PACK_BITS)
    for byte in range((count + 7) // 8):
        bits = 0
        for bit in range(min(8, count - 8 * byte)):
            bits |= load_8(source + 8 * byte + bit) << bit
        store_8(target + byte, bits)
    return count
