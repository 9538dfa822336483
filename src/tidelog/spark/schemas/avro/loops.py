"""The loop over Avro values, written for numba: it carries out a program (:mod:`.program`) for each of them.

Input is never trusted: every read is checked against the end of its value. A value that does not match is
marked, leaves nothing behind, and becomes a row without a value.

Imported only to compile machine code (:mod:`tidelog.spark.kernel.native`).
"""

from typing import Any

import numba
import numpy as np

from tidelog.spark.kernel.machine import (
    CHUNK_BYTES,
    copy_chunk,
    copy_run,
    load_8,
    load_64,
    load_float,
    store_8,
    store_32,
    store_64,
    store_double,
    store_float,
)
from tidelog.spark.schemas.avro import slots as s

_SHORT_BYTES = 512  # above this a call into the C library is faster
_HIGH_BITS = -0x7F7F7F7F7F7F7F80  # the highest bit of each of eight bytes
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1


def _compiled(signature: str) -> Any:
    return numba.njit(signature, boundscheck=False, nogil=True, error_model="numpy")


@_compiled("UniTuple(int64, 2)(int64, int64)")
def _varint(at, end):  # type: ignore[no-untyped-def]
    """(number, address after it); the address is 0 if the number is cut off or longer than 64 bits."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for number in range(10):
        if at >= end:
            return 0, 0
        byte = load_8(at)
        at += 1
        if number == 9 and byte > 1:
            return 0, 0
        value |= np.uint64(byte & 0x7F) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at
        shift += np.uint64(7)
    return 0, 0


@_compiled("int64(int64, int64)")
def _is_utf8(at, end):  # type: ignore[no-untyped-def]
    """1, or 0. As Unicode defines it: no surrogates, no longer forms than needed, nothing above U+10FFFF."""
    while at < end:
        if end - at >= 8 and (load_64(at) & _HIGH_BITS) == 0:
            at += 8
            continue
        first = load_8(at)
        if first < 0x80:
            at += 1
            continue
        low, high, more = 0x80, 0xBF, 0
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return 0
        if end - at <= more:
            return 0
        for number in range(1, more + 1):
            byte = load_8(at + number)
            if byte < low or byte > high:
                return 0
            low, high = 0x80, 0xBF
        at += more + 1
    return 1


@_compiled("void(int64, int64, int64, int64)")
def _copy(target, source, size, data_end):  # type: ignore[no-untyped-def]
    if size > _SHORT_BYTES or data_end - source < size + CHUNK_BYTES:
        copy_run(target, source, size)
        return
    done = 0
    while done < size:
        copy_chunk(target + done, source + done)
        done += CHUNK_BYTES


@_compiled("int64(int64, int64)")
def _row(column, levels):  # type: ignore[no-untyped-def]
    return load_64(levels + 8 * load_64(column + 8 * s.C_LEVEL))


@_compiled("void(int64, int64)")
def _mark(column, row):  # type: ignore[no-untyped-def]
    valid = load_64(column + 8 * s.C_VALID)
    if valid != 0:
        store_8(valid + row, 1)


@_compiled("int64(int64, int64, int64, int64, int64, int64)")
def _put_integer(column, levels, value, store, factor, fill):  # type: ignore[no-untyped-def]
    """1, or 0: the number does not fit the column."""
    if factor > 1:
        # Before, not after: compiled code may assume that a product does not overflow.
        most = _LONG_MAX // factor
        if value > most or value < -most:
            return 0
        value *= factor
    elif factor < 0:
        value = value // -factor  # rounded down, also before 1970
    if fill == 0:
        return 1
    row = _row(column, levels)
    values = load_64(column + 8 * s.C_VALUES)
    _mark(column, row)
    if store == s.INT32:
        store_32(values + 4 * row, value)
    elif store == s.INT64:
        store_64(values + 8 * row, value)
    elif store == s.FLOAT32:
        store_float(values + 4 * row, np.float32(value))
    else:
        store_double(values + 8 * row, np.float64(value))
    return 1


@_compiled("void(int64, int64, int64, int64)")
def _put_float(column, levels, at, store):  # type: ignore[no-untyped-def]
    row = _row(column, levels)
    values = load_64(column + 8 * s.C_VALUES)
    _mark(column, row)
    if store == s.FLOAT32:
        store_float(values + 4 * row, load_float(at))
    else:
        store_double(values + 8 * row, np.float64(load_float(at)))


@_compiled("void(int64, int64, int64)")
def _put_double(column, levels, at):  # type: ignore[no-untyped-def]
    row = _row(column, levels)
    _mark(column, row)
    copy_run(load_64(column + 8 * s.C_VALUES) + 8 * row, at, 8)


@_compiled("void(int64, int64, int64, int64, int64, int64)")
def _put_bytes(column, levels, at, size, data_end, fill):  # type: ignore[no-untyped-def]
    before = load_64(column + 8 * s.C_SIZE)
    store_64(column + 8 * s.C_SIZE, before + size)
    if fill == 0:
        return
    row = _row(column, levels)
    _mark(column, row)
    _copy(load_64(column + 8 * s.C_VALUES) + before, at, size, data_end)
    store_32(load_64(column + 8 * s.C_ENDS) + 4 * row + 4, before + size)


@_compiled("UniTuple(int64, 3)(int64, int64)")
def _wide(at, size):  # type: ignore[no-untyped-def]
    """(1, high half, low half) of a number of any size, or (0, …): it has more than 128 bits."""
    negative = size > 0 and load_8(at) >= 0x80
    high = np.int64(-1) if negative else np.int64(0)
    low = high
    extension = 0xFF if negative else 0
    while size > 16:
        if load_8(at) != extension:
            return 0, 0, 0
        at += 1
        size -= 1
        if size == 16 and (load_8(at) >= 0x80) != negative:
            return 0, 0, 0
    for number in range(size):
        high = (high << 8) | ((low >> 56) & 0xFF)
        low = (low << 8) | load_8(at + number)
    return 1, high, low


@_compiled("int64(int64, int64, int64, int64)")
def _is_below(high, low, limit_high, limit_low):  # type: ignore[no-untyped-def]
    """Whether the absolute value is below the limit."""
    if high < 0:
        low = -low
        high = ~high + (1 if low == 0 else 0)
        if high < 0:
            return 0
    if high != limit_high:
        return np.int64(high < limit_high)
    return np.int64(np.uint64(low) < np.uint64(limit_low))


@_compiled("int64(int64, int64, int64, int64, int64, int64, int64)")
def _put_decimal(column, levels, at, size, limit_high, limit_low, fill):  # type: ignore[no-untyped-def]
    fits, high, low = _wide(at, size)
    if size == 0 or fits == 0 or _is_below(high, low, limit_high, limit_low) == 0:
        return 0
    if fill != 0:
        row = _row(column, levels)
        _mark(column, row)
        values = load_64(column + 8 * s.C_VALUES) + 16 * row
        store_64(values, low)
        store_64(values + 8, high)
    return 1


@_compiled("void(int64, int64, int64, int64, int64)")
def _put_nulls(columns, levels, first, end, level):  # type: ignore[no-untyped-def]
    """A row without a value for each of these columns; only where one row ends must be written."""
    row = load_64(levels + 8 * level)
    for index in range(first, end):
        column = columns + 8 * s.COLUMN_WORDS * index
        if load_64(column + 8 * s.C_LEVEL) != level:
            continue
        kind = load_64(column + 8 * s.C_KIND)
        if kind == s.CONTENT:
            store_32(load_64(column + 8 * s.C_ENDS) + 4 * row + 4, load_64(column + 8 * s.C_SIZE))
        elif kind == s.ITEMS:
            items = load_64(levels + 8 * load_64(column + 8 * s.C_CHILD_LEVEL))
            store_32(load_64(column + 8 * s.C_ENDS) + 4 * row + 4, items)


@_compiled("UniTuple(int64, 2)(int64, int64, int64)")
def _block(at, end, size_min):  # type: ignore[no-untyped-def]
    """(number of items in the next block of a list, address of the first one), or (…, 0)."""
    items, at = _varint(at, end)
    if at == 0:
        return 0, 0
    if items < 0:
        if items == _LONG_MIN:
            return 0, 0
        items = -items
        size, at = _varint(at, end)
        if at == 0 or size < 0 or size > end - at:
            return 0, 0
    if size_min > 0:
        if items > (end - at) // size_min:
            return 0, 0
    elif items > s.EMPTY_ITEMS_MAX:
        return 0, 0
    return items, at


@_compiled("int64(int64, int64, int64, int64, int64)")
def _value(told, columns, at, end, fill):  # type: ignore[no-untyped-def]
    """The address after the value, or 0: it does not match."""
    program = load_64(told + 8 * s.PROGRAM)
    levels = load_64(told + 8 * s.LEVELS)
    lists = load_64(told + 8 * s.LISTS)
    data_end = load_64(told + 8 * s.DATA_END)
    step = 8 * s.WORDS
    pc = program
    while True:
        operation = load_64(pc)
        column = columns + 8 * s.COLUMN_WORDS * load_64(pc + 8)
        a = load_64(pc + 16)
        b = load_64(pc + 24)
        pc += step
        if operation == s.VARINT:
            value, at = _varint(at, end)
            if at == 0 or (b != 0 and (value < _INT_MIN or value > _INT_MAX)):
                return 0
            if a != 0 and _put_integer(column, levels, value, a, load_64(pc - step + 32), fill) == 0:
                return 0
        elif operation == s.BYTES or operation == s.DECIMAL:
            size = b
            if size < 0:
                size, at = _varint(at, end)
                if at == 0 or size < 0:
                    return 0
            if size > end - at:
                return 0
            c = load_64(pc - step + 32)
            if operation == s.DECIMAL:
                if _put_decimal(column, levels, at, size, c, load_64(pc - step + 40), fill) == 0:
                    return 0
            elif a != 0:
                if fill == 0 and c != 0 and _is_utf8(at, at + size) == 0:
                    return 0
                _put_bytes(column, levels, at, size, data_end, fill)
            at += size
        elif operation == s.DOUBLE:
            if end - at < 8:
                return 0
            if a != 0 and fill != 0:
                _put_double(column, levels, at)
            at += 8
        elif operation == s.UNION:
            branch, at = _varint(at, end)
            if at == 0 or branch < 0 or branch >= a:
                return 0
            target = load_64(program + 8 * (load_64(pc - step + 32) + branch))
            if target < 0:
                return 0
            pc = program + step * target
        elif operation == s.JUMP:
            pc = program + step * a
        elif operation == s.NULLS:
            if fill != 0:
                _put_nulls(columns, levels, a, b, load_64(pc - step + 32))
        elif operation == s.STRUCT:
            if fill != 0:
                _mark(column, _row(column, levels))
        elif operation == s.BOOLEAN:
            if at >= end or load_8(at) > 1:
                return 0
            if a != 0 and fill != 0:
                row = _row(column, levels)
                _mark(column, row)
                store_8(load_64(column + 8 * s.C_VALUES) + row, load_8(at))
            at += 1
        elif operation == s.FLOAT:
            if end - at < 4:
                return 0
            if a != 0 and fill != 0:
                _put_float(column, levels, at, a)
            at += 4
        elif operation == s.ENUM:
            symbol, at = _varint(at, end)
            if at == 0 or symbol < 0 or symbol >= b:
                return 0
            place = load_64(program + 8 * (load_64(pc - step + 32) + symbol))
            if place < 0:
                return 0
            if a != 0 and fill != 0:
                row = _row(column, levels)
                _mark(column, row)
                store_32(load_64(column + 8 * s.C_VALUES) + 4 * row, place)
        elif operation == s.LIST or operation == s.LOOP:
            if operation == s.LOOP:
                if b >= 0:
                    store_64(levels + 8 * b, load_64(levels + 8 * b) + 1)
                pc = program + step * a
                column = columns + 8 * s.COLUMN_WORDS * load_64(pc + 8)
                a = load_64(pc + 16)
                b = load_64(pc + 24)
                pc += step
            else:
                store_64(lists + 8 * b, 0)
            left = load_64(lists + 8 * b)
            if left == 0:
                left, at = _block(at, end, load_64(pc - step + 48))
                if at == 0:
                    return 0
                if left == 0:
                    if a != 0 and fill != 0:
                        row = _row(column, levels)
                        _mark(column, row)
                        items = load_64(levels + 8 * load_64(pc - step + 32))
                        store_32(load_64(column + 8 * s.C_ENDS) + 4 * row + 4, items)
                    pc = program + step * load_64(pc - step + 40)
                    continue
            store_64(lists + 8 * b, left - 1)
        else:
            return at


@_compiled("void(int64, int64, int64, int64)")
def _exchange(told, columns, levels, restore):  # type: ignore[no-untyped-def]
    """Remember how far all columns are, or go back to it."""
    saved = load_64(told + 8 * s.SAVED)
    for level in range(load_64(told + 8 * s.LEVEL_COUNT)):
        if restore != 0:
            store_64(levels + 8 * level, load_64(saved))
        else:
            store_64(saved, load_64(levels + 8 * level))
        saved += 8
    for index in range(load_64(told + 8 * s.COLUMN_COUNT)):
        size = columns + 8 * s.COLUMN_WORDS * index + 8 * s.C_SIZE
        if restore != 0:
            store_64(size, load_64(saved))
        else:
            store_64(saved, load_64(size))
        saved += 8


@_compiled("int64(int64)")
def decode(told):  # type: ignore[no-untyped-def]
    """The number of values that do not match. Called twice: to check and measure, then to fill."""
    columns = load_64(told + 8 * s.COLUMNS)
    levels = load_64(told + 8 * s.LEVELS)
    starts = load_64(told + 8 * s.STARTS)
    ends = load_64(told + 8 * s.ENDS)
    bad = load_64(told + 8 * s.BAD)
    fill = load_64(told + 8 * s.FILL)
    count = load_64(told + 8 * s.COLUMN_COUNT)
    found = 0
    for row in range(load_64(told + 8 * s.ROWS)):
        start = load_64(starts + 8 * row)
        if start < 0 or load_8(bad + row) != 0:
            found += start >= 0
            if fill != 0:
                _put_nulls(columns, levels, 0, count, 0)
        elif fill != 0:
            _value(told, columns, start, load_64(ends + 8 * row), 1)
        else:
            end = load_64(ends + 8 * row)
            _exchange(told, columns, levels, 0)
            if _value(told, columns, start, end, 0) != end:
                _exchange(told, columns, levels, 1)
                store_8(bad + row, 1)
                found += 1
        store_64(levels, load_64(levels) + 1)
    return found
