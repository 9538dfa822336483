"""Fetch version 18 as brokers ask it of each other: both directions of both frames, by hand.

This is the path every replicated record takes, so a partition costs one ``pack`` or ``unpack`` and its
records are never touched: on the leader's side they leave as they come (regions of segment files), on the
follower's side they are views of the received frame.

An ask names only what is new since an earlier one, which is not what Kafka's fetch sessions do. So the
session fields say "no session", and the two numbers that order asks travel in a tagged field of ours (they
outgrow a session's 32 bits within days). The answer tells for each partition which offset was asked for,
again in a tagged field of ours: Kafka's followers keep that in mind, ours recognise a late answer by it.

Works on plain tuples, in the field order of the replicas' own messages; whoever decodes says what to make of
them. Frames of another origin are read as well, as long as they are Fetch 18: tagged fields may be missing or
unknown.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from struct import Struct
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.protocol.fetch import API_KEY, FINAL_EPOCH, NO_SESSION
from tidelog.protocol.wire import (
    INT32,
    INT64,
    STRUCT_ERROR,
    Malformed,
    read_array_size,
    read_uvarint,
    skip_tags,
    write_uvarint,
)

VERSION = 18

Key = tuple[UUID, int]
"""Topic id and number of the partition."""

Item = tuple[Key, int, int, int, int, int]
"""Key, leader epoch, offset, epoch of the record before it, log start offset, high watermark."""


class Records(Protocol):
    @property
    def size(self) -> int: ...


R = TypeVar("R", bound=Records)
Part = tuple[Key, int, ErrorCode, int, int, int, int, R | None, tuple[int, int] | None]
"""Key, offset that was asked for, error, leader epoch, leader, high watermark, log start offset, records,
divergence."""

AnItem = TypeVar("AnItem")
ItemMaker = Callable[[Key, int, int, int, int, int], AnItem]
APart = TypeVar("APart")
PartMaker = Callable[
    [Key, int, ErrorCode, int, int, int, int, memoryview | None, tuple[int, int] | None], APart
]


class Ask(NamedTuple):
    """What an ask says besides its partitions."""

    sender: int
    broker_epoch: int
    generation: int
    since: int
    max_wait_ms: int
    max_bytes: int


# --- asks ---------------------------------------------------------------------------------------------------

_ORDER_TAG = 100  # Ours: generation, and the generation that the ask builds on. Kafka's own tags are small.

_FRAME = Struct(">ihhi")  # size, api key, version, correlation id
_HEAD = Struct(">iiibii")  # max wait, min bytes, max bytes, isolation level, session id and epoch
_PARTITION = Struct(">iiqiqi")
_ITEM = Struct(">iiqiqi3sq")  # a partition, then its only tagged field: the high watermark
_ITEM_MARK = b"\x01\x01\x08"  # one field; tag 1, 8 bytes
_ENDING = Struct(">4siqx2sqq")  # no rack, then two tagged fields: the replica, and the order of asks
_ENDING_MARK = b"\x01\x02\x01\x0d"  # an empty string; two fields; tag 1, 13 bytes
_ORDER_MARK = bytes((_ORDER_TAG, 16))
_REPLICA = Struct(">iq")
_ORDER = Struct(">qq")

NOT_TOLD = (1 << 63) - 1  # Kafka's default for a high watermark that the follower does not tell


def header(client_id: str) -> bytes:
    """What follows the correlation id in every request of one sender."""
    name = client_id.encode()
    return len(name).to_bytes(2, "big") + name + b"\x00"


def encode_ask(
    client: bytes, correlation_id: int, ask: Ask, items: Iterable[Item], forgotten: Iterable[Key]
) -> bytearray:
    """The whole request frame. ``client`` comes from :func:`header`."""
    out = bytearray(_FRAME.pack(0, API_KEY, VERSION, correlation_id))
    out += client
    max_bytes = ask.max_bytes
    out += _HEAD.pack(ask.max_wait_ms, 1, max_bytes, 0, NO_SESSION, FINAL_EPOCH)
    pack = _ITEM.pack
    topics = [
        (
            topic_id,
            [
                pack(key[1], epoch, offset, last_epoch, log_start, max_bytes, _ITEM_MARK, high_watermark)
                for key, epoch, offset, last_epoch, log_start, high_watermark in of_topic
            ],
        )
        for topic_id, of_topic in groupby(items, _topic_of)
    ]
    out += write_uvarint(len(topics) + 1)
    for topic_id, packed in topics:
        out += topic_id.bytes
        out += write_uvarint(len(packed) + 1)
        out += b"".join(packed)
        out += b"\x00"
    _encode_forgotten(out, list(forgotten))
    out += _ENDING.pack(_ENDING_MARK, ask.sender, ask.broker_epoch, _ORDER_MARK, ask.generation, ask.since)
    INT32.pack_into(out, 0, len(out) - 4)
    return out


def _topic_of(item: Item | Part[R]) -> UUID:
    return item[0][0]


def _encode_forgotten(out: bytearray, forgotten: list[Key]) -> None:
    topics = [(topic_id, list(keys)) for topic_id, keys in groupby(forgotten, lambda key: key[0])]
    out += write_uvarint(len(topics) + 1)
    for topic_id, keys in topics:
        out += topic_id.bytes + write_uvarint(len(keys) + 1)
        for _, index in keys:
            out += INT32.pack(index)
        out += b"\x00"


def is_ask(frame: memoryview, version: int) -> bool:
    """Whether a Fetch request comes from a follower: told by its last bytes, without reading all of it."""
    if version != VERSION:
        return False
    ending = bytes(frame[-_ENDING.size :])
    return ending[:4] == _ENDING_MARK and ending[17:19] == _ORDER_MARK


def decode_ask(
    frame: memoryview, position: int, make: ItemMaker[AnItem]
) -> tuple[Ask, list[AnItem], list[Key]]:
    """The body of a request: who asks, what is new, what is no longer wanted."""
    try:
        return _decode_ask(frame, position, make)
    except (IndexError, ValueError, STRUCT_ERROR):
        raise Malformed("the follower's fetch ends too early") from None


def _decode_ask(
    frame: memoryview, position: int, make: ItemMaker[AnItem]
) -> tuple[Ask, list[AnItem], list[Key]]:
    max_wait_ms, _, max_bytes, _, _, _ = _HEAD.unpack_from(frame, position)
    items: list[AnItem] = []
    topic_count, position = read_array_size(frame, position + _HEAD.size, True)
    for _ in range(topic_count):
        topic_id = _topic_id(frame, position)
        count, position = read_array_size(frame, position + 16, True)
        end = position + count * _ITEM.size
        if not _decode_items(frame[position:end], count, topic_id, make, items):
            end = _decode_odd_items(frame, position, count, topic_id, make, items)
        position = skip_tags(frame, end)
    forgotten, position = _decode_forgotten(frame, position)
    rack_size, position = read_uvarint(frame, position)
    sender, broker_epoch, generation, since = _decode_ending(frame, position + max(rack_size - 1, 0))
    return Ask(sender, broker_epoch, generation, since, max_wait_ms, max_bytes), items, forgotten


def _decode_items(
    packed: memoryview, count: int, topic_id: UUID, make: ItemMaker[AnItem], items: list[AnItem]
) -> bool:
    """Partitions as :func:`encode_ask` writes them. False, and nothing taken, when they look otherwise."""
    if len(packed) != count * _ITEM.size:
        return False
    found = []
    for index, epoch, offset, last_epoch, log_start, _, mark, high_watermark in _ITEM.iter_unpack(packed):
        if mark != _ITEM_MARK:
            return False
        found.append(make((topic_id, index), epoch, offset, last_epoch, log_start, high_watermark))
    items += found
    return True


def _decode_odd_items(
    frame: memoryview,
    position: int,
    count: int,
    topic_id: UUID,
    make: ItemMaker[AnItem],
    items: list[AnItem],
) -> int:
    for _ in range(count):
        index, epoch, offset, last_epoch, log_start, _ = _PARTITION.unpack_from(frame, position)
        tags, position = _read_tags(frame, position + _PARTITION.size)
        high_watermark = INT64.unpack(tags[1])[0] if 1 in tags else NOT_TOLD
        items.append(make((topic_id, index), epoch, offset, last_epoch, log_start, high_watermark))
    return position


def _decode_forgotten(frame: memoryview, position: int) -> tuple[list[Key], int]:
    topic_count, position = read_array_size(frame, position, True)
    forgotten: list[Key] = []
    for _ in range(topic_count):
        topic_id = _topic_id(frame, position)
        count, position = read_array_size(frame, position + 16, True)
        for _ in range(count):
            forgotten.append((topic_id, INT32.unpack_from(frame, position)[0]))
            position += 4
        position = skip_tags(frame, position)
    return forgotten, position


def _decode_ending(frame: memoryview, position: int) -> tuple[int, int, int, int]:
    tags, _ = _read_tags(frame, position)
    sender, broker_epoch = _REPLICA.unpack_from(tags[1]) if 1 in tags else (-1, -1)
    generation, since = _ORDER.unpack_from(tags[_ORDER_TAG]) if _ORDER_TAG in tags else (0, 0)
    return sender, broker_epoch, generation, since


# --- answers ------------------------------------------------------------------------------------------------

_OFFSET_TAG = 100  # Ours, of each partition: the offset that was asked for.

_ANSWER = Struct(">iiBihi")  # size, correlation id, no tagged fields, throttle time, error, session id
_ERROR = Struct(">4xh4x")  # the last three of them
# Index, error, high watermark, last stable offset, log start offset, no aborted ones, no preferred replica.
_PART_HEAD = Struct(">ihqqqBi")
_PART_SEEN = Struct(">ihq8xqB4x")  # the same, without what means nothing to a follower
_PART_TAIL = Struct(">3siix2sq")  # two tagged fields: the leader, and the offset that was asked for
_LEADER_MARK = b"\x02\x01\x09"  # two fields; tag 1, 9 bytes
_OFFSET_MARK = bytes((_OFFSET_TAG, 8))
_EMPTY_PART = Struct(">ihqqqBiB3siix2sq")  # head, no records, tail
_DIVERGING = Struct(">BBiqx")
_LEADER = Struct(">ii")
_EPOCH_END = Struct(">iq")
_NONE = ErrorCode.NONE


def encode_answer(correlation_id: int, error: ErrorCode, parts: Sequence[Part[R]]) -> list[bytearray | R]:
    """The answer frame in pieces: bytes made here, and the records between them as they came."""
    topics = [(topic_id, list(of_topic)) for topic_id, of_topic in groupby(parts, _topic_of)]
    out = bytearray(_ANSWER.pack(0, correlation_id, 0, 0, error, NO_SESSION))
    out += write_uvarint(len(topics) + 1)
    pieces: list[bytearray | R] = []
    size = 0  # of what is in ``pieces``
    for topic_id, of_topic in topics:
        out += topic_id.bytes
        out += write_uvarint(len(of_topic) + 1)
        for key, offset, code, epoch, leader, high_watermark, log_start, records, diverging in of_topic:
            if records is None and diverging is None:
                out += _EMPTY_PART.pack(
                    key[1], code, high_watermark, high_watermark, log_start, 0, -1, 1,
                    _LEADER_MARK, leader, epoch, _OFFSET_MARK, offset,
                )  # fmt: skip
                continue
            out += _PART_HEAD.pack(key[1], code, high_watermark, high_watermark, log_start, 0, -1)
            if records is None:
                out += b"\x01"
            else:
                out += write_uvarint(records.size + 1)
                pieces += (out, records)
                size += len(out) + records.size
                out = bytearray()
            tail = _PART_TAIL.pack(_LEADER_MARK, leader, epoch, _OFFSET_MARK, offset)
            out += tail if diverging is None else b"\x03" + _DIVERGING.pack(0, 13, *diverging) + tail[1:]
        out += b"\x00"
    out += b"\x00"
    pieces.append(out)
    INT32.pack_into(pieces[0], 0, size + len(out) - 4)  # type: ignore[arg-type]
    return pieces


def decode_answer(frame: memoryview, position: int, make: PartMaker[APart]) -> tuple[ErrorCode, list[APart]]:
    """The body of an answer, behind its header; records are views of ``frame``."""
    try:
        return _decode_answer(frame, position, make)
    except (IndexError, ValueError, STRUCT_ERROR):
        raise Malformed("the answer to a fetch ends too early") from None


def _decode_answer(frame: memoryview, position: int, make: PartMaker[APart]) -> tuple[ErrorCode, list[APart]]:
    (code,) = _ERROR.unpack_from(frame, position)
    topic_count, position = read_array_size(frame, position + _ERROR.size, True)
    parts: list[APart] = []
    for _ in range(topic_count):
        topic_id = _topic_id(frame, position)
        count, position = read_array_size(frame, position + 16, True)
        position = _decode_parts(frame, position, count, topic_id, make, parts)
        position = skip_tags(frame, position)
    return _error(code), parts


def _decode_parts(
    frame: memoryview, position: int, count: int, topic_id: UUID, make: PartMaker[APart], parts: list[APart]
) -> int:
    head, tail = _PART_SEEN, _PART_TAIL
    last_tail = len(frame) - tail.size
    for _ in range(count):
        index, code, high_watermark, log_start, aborted = head.unpack_from(frame, position)
        if aborted > 1:
            raise Malformed("a follower is not told of aborted transactions")
        size, position = read_uvarint(frame, position + head.size)
        records = None
        if size > 1:
            end = position + size - 1
            records = frame[position:end]
            position = end
        mark = offset_mark = b""
        if position <= last_tail:
            mark, leader, epoch, offset_mark, offset = tail.unpack_from(frame, position)
        diverging = None
        if mark == _LEADER_MARK and offset_mark == _OFFSET_MARK:
            position += tail.size
        else:
            leader, epoch, offset, diverging, position = _decode_odd_tail(frame, position)
        error = _NONE if code == 0 else _error(code)
        key = (topic_id, index)
        parts.append(make(key, offset, error, epoch, leader, high_watermark, log_start, records, diverging))
    return position


def _decode_odd_tail(frame: memoryview, position: int) -> tuple[int, int, int, tuple[int, int] | None, int]:
    tags, position = _read_tags(frame, position)
    leader, epoch = _LEADER.unpack_from(tags[1]) if 1 in tags else (-1, -1)
    offset = INT64.unpack(tags[_OFFSET_TAG])[0] if _OFFSET_TAG in tags else -1
    diverging = None
    if 0 in tags:
        end_epoch, end_offset = _EPOCH_END.unpack_from(tags[0])
        diverging = end_epoch, end_offset
    return leader, epoch, offset, diverging, position


# --- both ---------------------------------------------------------------------------------------------------


def _read_tags(frame: memoryview, position: int) -> tuple[dict[int, memoryview], int]:
    count, position = read_uvarint(frame, position)
    found = {}
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        found[tag] = frame[position : position + size]
        position += size
    if position > len(frame):
        raise Malformed("a tagged field reaches past the end of the frame")
    return found, position


_CODES = {int(code): code for code in ErrorCode}


def _error(code: int) -> ErrorCode:
    return _CODES.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


_known_ids: dict[bytes, UUID] = {}  # Making a UUID costs more than everything else about a topic.
_KNOWN_IDS_MAX = 10_000


def _topic_id(frame: memoryview, position: int) -> UUID:
    raw = bytes(frame[position : position + 16])
    known = _known_ids.get(raw)
    if known is None:
        if len(_known_ids) >= _KNOWN_IDS_MAX:
            _known_ids.clear()
        known = _known_ids[raw] = UUID(bytes=raw)
    return known
