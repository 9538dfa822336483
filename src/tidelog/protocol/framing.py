"""Whether the records of a producer's batch match its header, mostly without opening them.

A header is a claim: the number of records, and the largest of their timestamps. A broker that trusts it moves
its end offset by two thousand million for a batch of a hundred bytes. Opening every record in Python costs
more than everything else that a broker does with it, and even a compiled walk from record to record would
cost
several percent of that. So :func:`agrees` checks all records of a small batch and a bounded number of a large
one:

- **Runs.** Records of a batch tend to have the same lengths. Then each byte of their framing is in a
  column, at the same distance from record to record. Columns are cut out and compared by C code: of each
  record, or in a long run of every n-th and of the last. The layout is learned from a record that was
  opened.
- **Single records**, the first few that are in no run, are opened.
- **The chain** of lengths is followed through the rest, up to the last record, which is opened. If the
  rest is long, the last record is searched from the end of the batch instead.

True: the batch has room for as many records as the header says; the first and the last of them are where they
must be and have the right offset deltas; all that were checked are in order, and no timestamp of those is
larger than the header's. False only means that this check could not decide:
:func:`~tidelog.protocol.records.validate_records` opens all and says what is wrong, or that only the largest
timestamp differs. docs/decisions/0019 says what this leaves unchecked and why.
"""

import mmap
import sys
from collections.abc import Callable
from ctypes import addressof, c_char
from functools import cache
from struct import Struct
from typing import NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.protocol.batch import HEADER_SIZE, LENGTH_PREFIX_SIZE, BatchHeader, Buffer
from tidelog.protocol.codecs import MAX_DECOMPRESSED_BYTES, expansion_max
from tidelog.protocol.records import Bytes, RawRecord, append_varint, outline, read_varint, varint_size

RECORD_BYTES_MIN = 7  # length, attributes, two deltas, two lengths and the number of headers
COPY_BELOW_BYTES = 32 << 10  # copying so little costs less than locating it
STEPS = 12  # runs and single records of a batch until only the chain of lengths is followed
STEPS_PER_SINGLE = 5  # more for a record that is not compared with others: lengths vary
STEPS_MAX = 64
RUN_MIN = 3  # records; columns of fewer are not worth cutting out
RUN_GROWTH = 4  # by which the next run is longer, or shorter when this one broke off
RECORDS_PER_STEP = 32  # a run of so many allows one step more
WHOLE_MAX = 256  # records of a batch whose runs are checked completely
LOOKED_AT = 15  # records of a run of a larger batch, and up to twice as many; the last one is among them
FOLLOWED_MAX = 32  # records of a chain
LAST_TRIES = 8  # positions at which the last record may begin
LEARNED_MAX = 4096

# Offset deltas as zigzag varints, one table for each byte: 0 to 63 take one byte, up to 8,191 two. The low
# byte repeats after 64 records, the middle one after 8,192.
_ONE_BYTE_DELTAS = 64
_TWO_BYTE_DELTAS = 8192
_THREE_BYTE_DELTAS = 1 << 20
_ONE = bytes(2 * delta for delta in range(_ONE_BYTE_DELTAS))
_LOW = bytes(2 * delta & 0x7F | 0x80 for delta in range(_TWO_BYTE_DELTAS))
_HIGH = bytes(delta >> 6 for delta in range(_TWO_BYTE_DELTAS))
_MIDDLE = bytes(delta >> 6 | 0x80 for delta in range(_TWO_BYTE_DELTAS))
# By the first of two bytes of a length: its share of where the record ends; the second one's is 64 times it.
_BEHIND_TWO = bytes(2 + ((byte & 0x7F) >> 1) for byte in range(0x100))
_CONTINUED_POSITIVE = bytes(range(0x80, 0x100, 2))  # first bytes of a longer varint that is not negative


def agrees(records: memoryview, header: BatchHeader) -> bool:
    """Whether an uncompressed batch, complete and with a valid CRC, matches its header."""
    size = header.length + LENGTH_PREFIX_SIZE
    newest_delta = header.max_timestamp - header.base_timestamp
    if header.count == 1:
        return not newest_delta and is_one_record(records, size)
    return are_records(records, size, header.count, newest_delta)


def are_records(records: memoryview, size: int, count: int, newest_delta: int) -> bool:
    """The same of several records."""
    if count * RECORD_BYTES_MIN > size - HEADER_SIZE:
        return False
    data, begin = _locate(records)
    return _holds(data, begin, begin + size - HEADER_SIZE, count, newest_delta)


def payload_agrees(payload: Buffer, header: BatchHeader) -> bool:
    """The same for decompressed records."""
    data = bytes(payload)
    return _holds(data, 0, len(data), header.count, header.max_timestamp - header.base_timestamp)


def records_max(header: BatchHeader) -> int:
    """The largest number of records in a batch of this size and codec, whatever it claims."""
    size = header.length + LENGTH_PREFIX_SIZE - HEADER_SIZE
    return min(size * expansion_max(header.codec), MAX_DECOMPRESSED_BYTES) // RECORD_BYTES_MIN


def _holds(data: Bytes, start: int, end: int, count: int, newest_delta: int) -> bool:
    try:
        return newest_delta >= 0 and _agrees(data, start, end, count, newest_delta)
    except (IndexError, CorruptBatch):
        return False


# -- a single record -----------------------------------------------------------------


# By size of a batch of one record: reads everything in it but attributes, key and value, and what that was.
_ones: dict[int, tuple[Callable[[memoryview, int], tuple[int | bytes, ...]], tuple[int | bytes, ...]]] = {}


def is_one_record(records: memoryview, size: int) -> bool:
    """Whether a batch is one record with the batch's own timestamp. Records of one producer often have one
    size: a valid layout is only compared the next time. Many requests hold nothing else.
    """
    known = _ones.get(size)
    if known is not None:
        read, expected = known
        if read(records, HEADER_SIZE) == expected:
            return True
    return _open_one(records, size)


def _open_one(records: memoryview, size: int) -> bool:
    data = bytes(records[HEADER_SIZE:size])
    try:
        raw = outline(data, 0, len(data))
    except (IndexError, CorruptBatch):
        return False
    if raw.end != len(data) or raw.offset_delta or raw.timestamp_delta:
        return False
    value_end = raw.value_start + max(raw.value_size, 0)
    if value_end == len(data) - 1:  # no headers
        if len(_ones) >= LEARNED_MAX:
            _ones.clear()
        key_end = raw.key_start + max(raw.key_size, 0)
        length_end = _behind(data, 0)
        read = Struct(
            f">{length_end}sx{raw.key_start - length_end - 1}s{key_end - raw.key_start}x"
            f"{raw.value_start - key_end}s{value_end - raw.value_start}xB"
        ).unpack_from
        _ones[size] = read, read(data, 0)
    return True


# -- many records --------------------------------------------------------------------


def _locate(records: memoryview) -> tuple[Bytes, int]:
    """A buffer whose columns can be cut out quickly, unlike a memoryview, and where the records begin."""
    whole = records.obj
    if len(records) >= COPY_BELOW_BYTES and isinstance(whole, bytearray | mmap.mmap) and not records.readonly:
        begin = addressof(c_char.from_buffer(records)) - addressof(c_char.from_buffer(whole))
        return whole, begin + HEADER_SIZE
    return bytes(records), HEADER_SIZE


def _agrees(data: Bytes, start: int, end: int, count: int, newest_delta: int) -> bool:
    position = start
    index = 0
    reached = False  # whether a record has the claimed largest timestamp
    steps, steps_left = STEPS, STEPS_MAX
    size_max = 0  # of the next run; 0: up to the end
    previous_stride = 0
    is_small = count <= WHOLE_MAX
    while index < count and steps > 0 and steps_left:
        steps -= 1
        steps_left -= 1
        # Is the next record laid out like one that was opened, and the one after it, too?
        stride = _stride(data, position)
        left = count - index
        if left >= RUN_MIN and data[position + stride] == data[position]:
            layout = _layouts.get((stride, 1 if index < _ONE_BYTE_DELTAS else varint_size(index)))
            if layout is not None:
                size = _run_size(data, position, end, index, left, stride, size_max)
                met = _run(data, position, size, index, layout, newest_delta, is_small) if size else None
                if met is not None:
                    reached = reached or met
                    index += size
                    position += size * stride
                    size_max *= RUN_GROWTH
                    steps += size // RECORDS_PER_STEP
                    continue
                size_max = max(size // RUN_GROWTH, RUN_MIN)
        else:
            steps -= STEPS_PER_SINGLE
        raw = outline(data, position, end)
        if raw.offset_delta != index or raw.timestamp_delta > newest_delta:
            return False
        reached = reached or raw.timestamp_delta == newest_delta
        if stride == previous_stride and count >= RUN_MIN:
            _learn(data, raw)
        previous_stride = stride
        index += 1
        position = raw.end
    if index == count:
        return reached and position == end
    left = count - index
    if left > FOLLOWED_MAX:
        chain_end = _chain_end(data, position, FOLLOWED_MAX)
        return chain_end <= end and _ends_with(data, chain_end, end, count - 1, newest_delta)
    return _follow(data, position, end, left, count - 1, newest_delta)


def _stride(data: Bytes, position: int) -> int:
    """The size of the record at ``position``, if its length is valid."""
    byte = data[position]
    if byte < 0x80:
        return 1 + (byte >> 1)
    second = data[position + 1]
    if second < 0x80:
        return _BEHIND_TWO[byte] + (second << 6)
    size, start = read_varint(data, position)
    return start - position + max(size, 0)


def _follow(data: Bytes, position: int, end: int, left: int, last_index: int, newest_delta: int) -> bool:
    """Whether ``left`` records end at ``end``, and the last of them is the last of the batch."""
    last = _chain_end(data, position, left - 1)
    return last < end and _is_last(data, last, end, last_index, newest_delta)


def _chain_end(data: Bytes, position: int, count: int) -> int:
    """Where the ``count`` records from ``position`` on end, by their lengths."""
    signs = 0
    for _ in range(count):
        byte = data[position]
        signs |= byte
        if byte < 0x80:
            position += 1 + (byte >> 1)
        else:
            second = data[position + 1]
            if second < 0x80:
                position += _BEHIND_TWO[byte] + (second << 6)
            else:
                size, position = read_varint(data, position)
                position += size
    if signs & 1:
        raise CorruptBatch("a record has a negative length")  # The lowest bit is the sign.
    return position


def _is_last(data: Bytes, start: int, end: int, index: int, newest_delta: int) -> bool:
    raw = outline(data, start, end)
    return raw.end == end and raw.offset_delta == index and raw.timestamp_delta <= newest_delta


def _ends_with(data: Bytes, start: int, end: int, index: int, newest_delta: int) -> bool:
    """Whether the last record, number ``index``, is found after ``start``: its offset delta is searched from
    the end, and the bytes around it must be a record up to the end.
    """
    offset_delta = bytearray()
    append_varint(offset_delta, index)
    behind = end
    for _ in range(LAST_TRIES):
        at = data.rfind(offset_delta, start, behind)
        if at < 0:
            return False
        behind = at + len(offset_delta) - 1
        # Before it: a length of one to five bytes, the attributes, a timestamp delta of one to ten.
        for first in range(at - 3, max(at - 16, start) - 1, -1):
            if first + _stride(data, first) == end and _may_be_last(data, first, end, index, newest_delta):
                return True
    return False


def _may_be_last(data: Bytes, start: int, end: int, index: int, newest_delta: int) -> bool:
    try:
        return _is_last(data, start, end, index, newest_delta)
    except (IndexError, CorruptBatch):
        return False


# -- records with the same lengths ---------------------------------------------------


class _Layout(NamedTuple):
    """Where a record's framing is; positions count from its first byte."""

    stride: int
    timestamp_at: int
    timestamp_size: int
    offset_at: int
    constant_bytes: tuple[tuple[int, bytes], ...]  # (position, byte) of all lengths and counts


_layouts: dict[tuple[int, int], _Layout] = {}  # by stride and size of the offset delta


def _learn(data: Bytes, raw: RawRecord) -> None:
    start = raw.start
    length_end = _behind(data, start)
    offset_end = _behind(data, raw.after_timestamp)
    key_end = raw.key_start + max(raw.key_size, 0)
    places = [*range(start, length_end), *range(offset_end, raw.key_start), *range(key_end, raw.value_start)]
    places += _header_framing(data, raw.value_start + max(raw.value_size, 0), raw.end)
    timestamp_size = raw.after_timestamp - length_end - 1
    if timestamp_size > 2 or offset_end - raw.after_timestamp > 3:
        return
    if len(_layouts) >= LEARNED_MAX:
        _layouts.clear()
    _layouts[raw.end - start, offset_end - raw.after_timestamp] = _Layout(
        raw.end - start,
        length_end + 1 - start,
        timestamp_size,
        raw.after_timestamp - start,
        tuple((place - start, bytes((data[place],))) for place in places),
    )


def _header_framing(data: Bytes, at: int, end: int) -> list[int]:
    """Positions of the bytes that hold the number of headers and the lengths of their parts."""
    behind = _behind(data, at)
    places = list(range(at, behind))
    while behind < end:
        size, start = read_varint(data, behind)
        places += range(behind, start)
        behind = start + max(size, 0)
    return places


def _behind(data: Bytes, at: int) -> int:
    """Where the varint at ``at`` ends."""
    while data[at] > 0x7F:
        at += 1
    return at + 1


def _run_size(data: Bytes, position: int, end: int, index: int, left: int, stride: int, size_max: int) -> int:
    """How many records to compare at once; at most so many that their offset deltas have one size, and one
    value in the third byte.
    """
    limit = _ONE_BYTE_DELTAS if index < _ONE_BYTE_DELTAS else _TWO_BYTE_DELTAS
    room = limit - index % _TWO_BYTE_DELTAS
    if room > left:
        room = left
    if position + room * stride > end:
        room = (end - position) // stride
    if room < RUN_MIN:
        return 0
    if size_max:
        return min(room, size_max)
    byte = data[position]
    least, most = 1, room - 1
    if data[position + most * stride] == byte:
        return room
    # Lengths change where a timestamp or a key grows by a digit: find that place before it is reached.
    while least < most:
        middle = (least + most + 1) >> 1
        if data[position + middle * stride] == byte:
            least = middle
        else:
            most = middle - 1
    return least + 1


def _run(
    data: Bytes, first: int, size: int, index: int, layout: _Layout, newest_delta: int, is_small: bool
) -> bool | None:
    """Whether ``size`` records from ``first`` on have this layout. None: they do not; else whether one of
    them has the largest timestamp. ``is_small``: all of them are checked.
    """
    step = (size - 1) // LOOKED_AT
    skipped = (size - 1) % step if step else 0  # so that the last one is checked
    if step <= 1 or is_small or (skipped and not index):
        return _compare(data, first, size, index, 1, layout, newest_delta)
    begin, looked_at = first + skipped * layout.stride, (size - 1) // step + 1
    reached = _compare(data, begin, looked_at, index + skipped, step, layout, newest_delta)
    if reached is None or not newest_delta or _is_sorted(data, begin, looked_at, step, layout):
        return reached
    # Timestamps that do not rise can have their largest one anywhere.
    return _compare(data, first, size, index, 1, layout, newest_delta)


def _is_sorted(data: Bytes, first: int, size: int, step: int, layout: _Layout) -> bool:
    """Whether the checked timestamps rise."""
    stride = step * layout.stride
    at = first + layout.timestamp_at
    low = data[at : at + (size - 1) * stride + 1 : stride]
    if layout.timestamp_size == 1:
        return low == low[:1] * size or list(low) == sorted(low)
    at += 1
    high = data[at : at + (size - 1) * stride + 1 : stride]
    both = list(zip(high, low, strict=True))
    return both == sorted(both)


def _compare(
    data: Bytes, first: int, size: int, index: int, step: int, layout: _Layout, newest_delta: int
) -> bool | None:
    """The same of every ``step``-th record, ``size`` of them."""
    stride = step * layout.stride
    behind = first + (size - 1) * stride + 1  # of the first byte of the last one
    for at, byte in layout.constant_bytes:
        if data[first + at : behind + at : stride].strip(byte):
            return None
    at = layout.offset_at
    column = data[first + at : behind + at : stride]
    in_table = index % _TWO_BYTE_DELTAS
    table_end = in_table + (size - 1) * step + 1
    if index < _ONE_BYTE_DELTAS:
        if column != _ONE[in_table:table_end:step]:
            return None
    else:
        if column != _LOW[in_table:table_end:step]:
            return None
        column = data[first + at + 1 : behind + at + 1 : stride]
        if index < _TWO_BYTE_DELTAS:
            if column != _HIGH[in_table:table_end:step]:
                return None
        elif (
            column != _MIDDLE[in_table:table_end:step]
            or data[first + at + 2 : behind + at + 2 : stride].count(index // _TWO_BYTE_DELTAS) != size
        ):
            return None
    at = layout.timestamp_at
    column = data[first + at : behind + at : stride]
    if layout.timestamp_size == 1:
        return _reaches(column, newest_delta)
    return _reaches_far(column, data[first + at + 1 : behind + at + 1 : stride], newest_delta)


def _reaches(column: bytes | bytearray, newest_delta: int) -> bool | None:
    """Timestamp deltas of one byte."""
    if newest_delta >= _ONE_BYTE_DELTAS:
        return False if column.isascii() else None
    if column.translate(None, _at_most(newest_delta)):
        return None
    return newest_delta << 1 in column


@cache
def _at_most(delta: int) -> bytes:
    """Varints of one byte that stand for a number up to ``delta``, negative ones included."""
    return bytes(byte for byte in range(0x80) if byte & 1 or byte >> 1 <= delta)


def _reaches_far(low: bytes | bytearray, high: bytes | bytearray, newest_delta: int) -> bool | None:
    """Timestamp deltas of two bytes, none of them negative."""
    if not high.isascii() or low.translate(None, _CONTINUED_POSITIVE):
        return None
    if newest_delta >= _TWO_BYTE_DELTAS:
        return False
    numbers = bytearray(2 * len(low))
    numbers[0::2], numbers[1::2] = (low, high) if sys.byteorder == "little" else (high, low)
    largest = max(memoryview(numbers).cast("H"))
    delta = (largest >> 8 << 7 | largest & 0x7F) >> 1
    return delta == newest_delta if delta <= newest_delta else None
