"""Fetch version 18 between brokers: both directions of both frames, by hand.

Every replicated record takes this path, so a partition costs one ``pack`` or ``unpack`` and its records are
never touched: the leader sends them as they are (regions of segment files), the follower gets views of the
received frame.

A request names only what is new since an earlier one, unlike Kafka's fetch sessions. So the session fields
say "no session", and the two numbers that order requests are in a tagged field of ours (they outgrow a
session's 32 bits within days), together with the id of the follower's disk. How many requests ago the newest
response was that the follower has seen is in Kafka's min bytes field: our followers accept any number of
bytes, so Kafka's values there mean "unknown". The response repeats the requested offset of each partition,
again in a tagged field of ours: Kafka's followers remember it, ours recognise a late response by it.

Works on plain tuples, in the field order of the replicas' own messages; the caller converts them. Frames of
other origin are read as well, as long as they are Fetch 18: tagged fields may be missing or unknown.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from struct import Struct
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

from tidelog.errors import ErrorCode
from tidelog.protocol.fetch import API_KEY, FINAL_EPOCH, NO_SESSION
from tidelog.protocol.wire import (
    ELEMENTS_MAX,
    INT32,
    INT64,
    STRUCT_ERROR,
    TAGS_MAX,
    Malformed,
    read_array_size,
    read_string,
    read_uvarint,
    skip_tags,
    write_string,
    write_uvarint,
)

VERSION = 18

Key = tuple[UUID, int]
"""Topic id and number of the partition."""

Item = tuple[Key, int, int, int, int, int]
"""Key, leader epoch, offset, epoch of the record before it, log start offset, high watermark."""


class RecordRegion(Protocol):
    @property
    def size(self) -> int: ...


R = TypeVar("R", bound=RecordRegion)
Pair = tuple[int, int]
Part = tuple[Key, int, ErrorCode, int, int, int, int, R | None, Pair | None, Pair | None]
"""Key, requested offset, error, leader epoch, leader, high watermark, log start offset, records, divergence
(epoch, end offset), snapshot to begin with (end offset, epoch).
"""

AnItem = TypeVar("AnItem")
ItemMaker = Callable[[Key, int, int, int, int, int], AnItem]
APart = TypeVar("APart")
PartMaker = Callable[
    [Key, int, ErrorCode, int, int, int, int, memoryview | None, Pair | None, Pair | None], APart
]


class Ask(NamedTuple):
    """What a request contains besides its partitions."""

    sender: int
    broker_epoch: int
    generation: int
    since: int
    max_wait_ms: int
    max_bytes: int
    directory: UUID | None = None
    heard: int = -1  # the newest generation whose response the sender has; 0: none; -1: unknown
    others: Sequence[tuple[Key, UUID]] = ()  # partitions where the directory id is another one


class FetchHeader(NamedTuple):
    """The constant parts of all requests of one broker; see :func:`asker`."""

    header: bytes  # after the correlation id
    cluster: bytes  # the empty rack, the number of tagged fields, and the first of them: the cluster's id


# --- asks ---------------------------------------------------------------------------------------------------

_OUR_TAG = 100  # Generation, the one that the request builds on, directory. Kafka's own tags are small.

_FRAME = Struct(">ihhi")  # size, api key, version, correlation id
_HEAD = Struct(">iiibii")  # max wait, min bytes, max bytes, isolation level, session id and epoch
_PARTITION = Struct(">iiqiqi")
_ITEM = Struct(">iiqiqi3sq")  # a partition, then its only tagged field: the high watermark
_ITEM_MARK = b"\x01\x01\x08"  # one field; tag 1, 8 bytes
_ENDING = Struct(">2siqx2sqq16s")  # the last two tagged fields: the replica, and ours
_REPLICA_MARK = b"\x01\x0d"  # tag 1, 13 bytes
_OUR_MARK = bytes((_OUR_TAG, 32))
_OTHERS_TAG = 99  # Before these two, and rarely: partitions with another directory.
_OTHER = Struct(">16si16s")  # topic id, partition, directory
_REPLICA = Struct(">iq")
_OURS = Struct(">qq16s")
_NO_DIRECTORY = bytes(16)
_NOT_TOLD = 1  # The usual value of other clients.
_FAR_BEHIND = 1 << 20  # requests

OTHERS_MAX = 100  # They are searched for each partition. A follower has one, for the metadata log.

NOT_TOLD = (1 << 63) - 1  # Kafka's default for an unknown high watermark of the follower


def asker(client_id: str, cluster_id: str | None) -> FetchHeader:
    header = write_string(client_id, False) + b"\x00"
    if not cluster_id:
        return FetchHeader(header, b"\x01\x02")
    name = write_string(cluster_id, True)
    return FetchHeader(header, b"\x01\x03\x00" + write_uvarint(len(name)) + name)


def encode_ask(
    asker: FetchHeader, correlation_id: int, ask: Ask, items: Iterable[Item], forgotten: Iterable[Key]
) -> bytearray:
    """The whole request frame."""
    out = bytearray(_FRAME.pack(0, API_KEY, VERSION, correlation_id))
    out += asker.header
    max_bytes = ask.max_bytes
    out += _HEAD.pack(ask.max_wait_ms, _pack_heard(ask), max_bytes, 0, NO_SESSION, FINAL_EPOCH)
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
    out += _with_others(asker.cluster, ask.others) if ask.others else asker.cluster
    directory = _NO_DIRECTORY if ask.directory is None else ask.directory.bytes
    out += _ENDING.pack(
        _REPLICA_MARK, ask.sender, ask.broker_epoch, _OUR_MARK, ask.generation, ask.since, directory
    )
    INT32.pack_into(out, 0, len(out) - 4)
    return out


def _with_others(cluster: bytes, others: Sequence[tuple[Key, UUID]]) -> bytes:
    """One tagged field more than usual."""
    packed = b"".join(
        _OTHER.pack(topic_id.bytes, partition, directory.bytes) for (topic_id, partition), directory in others
    )
    head = bytes((cluster[0], cluster[1] + 1)) + cluster[2:]
    return head + write_uvarint(_OTHERS_TAG) + write_uvarint(len(packed)) + packed


def _pack_heard(ask: Ask) -> int:
    """0: none; else one more than how many requests ago it was, which leaves room for "unknown"."""
    if ask.heard < 0:
        return _NOT_TOLD
    behind = ask.generation - ask.heard
    return behind + 1 if 0 < behind < _FAR_BEHIND else 0


def _unpack_heard(generation: int, behind: int) -> int:
    if behind == _NOT_TOLD:
        return -1
    return generation + 1 - behind if behind else 0


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
    """Whether a Fetch request comes from a follower: recognised by its last bytes, without
    reading all of it.
    """
    if version != VERSION:
        return False
    ending = bytes(frame[-_ENDING.size :])
    return ending[:2] == _REPLICA_MARK and ending[15:17] == _OUR_MARK


def decode_ask(
    frame: memoryview, position: int, make: ItemMaker[AnItem]
) -> tuple[Ask, list[AnItem], list[Key], str | None]:
    """The body of a request: the sender, what is new, what is no longer wanted, and the sender's cluster."""
    try:
        return _decode_ask(frame, position, make)
    except (IndexError, ValueError, STRUCT_ERROR):
        raise Malformed("the follower's fetch ends too early") from None


def _decode_ask(
    frame: memoryview, position: int, make: ItemMaker[AnItem]
) -> tuple[Ask, list[AnItem], list[Key], str | None]:
    max_wait_ms, behind, max_bytes, _, _, _ = _HEAD.unpack_from(frame, position)
    items: list[AnItem] = []
    topic_count, position = read_array_size(frame, position + _HEAD.size, True)
    for _ in range(topic_count):
        topic_id = _uuid(frame[position : position + 16])
        count, position = read_array_size(frame, position + 16, True)
        _check_count(len(items) + count)
        end = position + count * _ITEM.size
        if not _decode_items(frame[position:end], count, topic_id, make, items):
            end = _decode_odd_items(frame, position, count, topic_id, make, items)
        position = skip_tags(frame, end)
    forgotten, position = _decode_forgotten(frame, position)
    rack_size, position = read_uvarint(frame, position)
    tags, _ = _read_tags(frame, position + max(rack_size - 1, 0))
    sender, broker_epoch = _REPLICA.unpack_from(tags[1]) if 1 in tags else (-1, -1)
    generation, since, raw = _OURS.unpack_from(tags[_OUR_TAG]) if _OUR_TAG in tags else (0, 0, _NO_DIRECTORY)
    directory = None if raw == _NO_DIRECTORY else _uuid(raw)
    cluster_id = read_string(tags[0], 0, True)[0] if 0 in tags else None
    heard = _unpack_heard(generation, behind if _OUR_TAG in tags else _NOT_TOLD)
    others = _decode_others(tags[_OTHERS_TAG]) if _OTHERS_TAG in tags else ()
    ask = Ask(sender, broker_epoch, generation, since, max_wait_ms, max_bytes, directory, heard, others)
    return ask, items, forgotten, cluster_id


def _check_count(count: int) -> None:
    """Any client can send such a request: each partition costs some microseconds."""
    if count > ELEMENTS_MAX:
        raise Malformed("a follower's fetch of too many partitions")


def _decode_others(packed: memoryview) -> Sequence[tuple[Key, UUID]]:
    if len(packed) > OTHERS_MAX * _OTHER.size:
        raise Malformed("a follower's fetch with too many directories")
    return [
        ((_uuid(topic_id), partition), _uuid(directory))
        for topic_id, partition, directory in _OTHER.iter_unpack(packed)
    ]


def _decode_items(
    packed: memoryview, count: int, topic_id: UUID, make: ItemMaker[AnItem], items: list[AnItem]
) -> bool:
    """Partitions as :func:`encode_ask` writes them. False, with nothing read, if they have another form."""
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
        topic_id = _uuid(frame[position : position + 16])
        count, position = read_array_size(frame, position + 16, True)
        _check_count(len(forgotten) + count)
        for _ in range(count):
            forgotten.append((topic_id, INT32.unpack_from(frame, position)[0]))
            position += 4
        position = skip_tags(frame, position)
    return forgotten, position


# --- answers ------------------------------------------------------------------------------------------------

_OFFSET_TAG = 100  # Ours, for each partition: the requested offset.

_RESPONSE = Struct(">iiBihi")  # size, correlation id, no tagged fields, throttle time, error, session id
_ERROR = Struct(">4xh4x")  # the last three of them
# Index, error, high watermark, last stable offset, log start offset, no aborted ones, no preferred replica.
_PART_HEAD = Struct(">ihqqqBi")
_PART_SEEN = Struct(">ihq8xqB4x")  # the same, without fields that mean nothing to a follower
_PART_TAIL = Struct(">3siix2sq")  # two tagged fields: the leader, and the requested offset
_LEADER_MARK = b"\x02\x01\x09"  # two fields; tag 1, 9 bytes
_OFFSET_MARK = bytes((_OFFSET_TAG, 8))
_EMPTY_PART = Struct(">ihqqqBiB3siix2sq")  # head, no records, tail
_LEADER = Struct(">ii")
_DIVERGING = Struct(">iq")
_SNAPSHOT = Struct(">qi")
_NONE = ErrorCode.NONE


def encode_response(correlation_id: int, error: ErrorCode, parts: Sequence[Part[R]]) -> list[bytearray | R]:
    """The response frame in pieces: bytes made here, and the records between them as they are."""
    topics = [(topic_id, list(of_topic)) for topic_id, of_topic in groupby(parts, _topic_of)]
    out = bytearray(_RESPONSE.pack(0, correlation_id, 0, 0, error, NO_SESSION))
    out += write_uvarint(len(topics) + 1)
    pieces: list[bytearray | R] = []
    size = 0  # of what is in ``pieces``
    for topic_id, of_topic in topics:
        out += topic_id.bytes
        out += write_uvarint(len(of_topic) + 1)
        for (
            key, offset, code, epoch, leader, high_watermark, log_start, records, diverging, snapshot,
        ) in of_topic:  # fmt: skip
            plain = diverging is None and snapshot is None
            if records is None and plain:
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
            out += tail if plain else _odd_tail(tail, diverging, snapshot)
        out += b"\x00"
    out += b"\x00"
    pieces.append(out)
    INT32.pack_into(pieces[0], 0, size + len(out) - 4)  # type: ignore[arg-type]
    return pieces


def _odd_tail(tail: bytes, diverging: Pair | None, snapshot: Pair | None) -> bytes:
    """The usual tagged fields and the rare ones, all in the order of their tags."""
    leader, offset = tail[1:12], tail[12:]
    fields = [leader, offset]
    if snapshot is not None:
        fields.insert(1, b"\x02\x0d" + _SNAPSHOT.pack(*snapshot) + b"\x00")
    if diverging is not None:
        fields.insert(0, b"\x00\x0d" + _DIVERGING.pack(*diverging) + b"\x00")
    return write_uvarint(len(fields)) + b"".join(fields)


def decode_response(
    frame: memoryview, position: int, make: PartMaker[APart]
) -> tuple[ErrorCode, list[APart]]:
    """The body of a response, after its header; records are views of ``frame``."""
    try:
        return _decode_response(frame, position, make)
    except (IndexError, ValueError, STRUCT_ERROR):
        raise Malformed("the answer to a fetch ends too early") from None


def _decode_response(
    frame: memoryview, position: int, make: PartMaker[APart]
) -> tuple[ErrorCode, list[APart]]:
    (code,) = _ERROR.unpack_from(frame, position)
    topic_count, position = read_array_size(frame, position + _ERROR.size, True)
    parts: list[APart] = []
    for _ in range(topic_count):
        topic_id = _uuid(frame[position : position + 16])
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
        diverging = snapshot = None
        if mark == _LEADER_MARK and offset_mark == _OFFSET_MARK:
            position += tail.size
        else:
            leader, epoch, offset, diverging, snapshot, position = _decode_odd_tail(frame, position)
        error = _NONE if code == 0 else _error(code)
        parts.append(
            make(
                (topic_id, index), offset, error, epoch, leader, high_watermark, log_start, records,
                diverging, snapshot,
            )
        )  # fmt: skip
    return position


def _decode_odd_tail(frame: memoryview, position: int) -> tuple[int, int, int, Pair | None, Pair | None, int]:
    tags, position = _read_tags(frame, position)
    leader, epoch = _LEADER.unpack_from(tags[1]) if 1 in tags else (-1, -1)
    offset = INT64.unpack(tags[_OFFSET_TAG])[0] if _OFFSET_TAG in tags else -1
    diverging = snapshot = None
    if 0 in tags:
        end_epoch, end_offset = _DIVERGING.unpack_from(tags[0])
        diverging = end_epoch, end_offset
    if 2 in tags:
        end_offset, end_epoch = _SNAPSHOT.unpack_from(tags[2])
        snapshot = end_offset, end_epoch
    return leader, epoch, offset, diverging, snapshot, position


# --- both ---------------------------------------------------------------------------------------------------


def _read_tags(frame: memoryview, position: int) -> tuple[dict[int, memoryview], int]:
    count, position = read_uvarint(frame, position)
    if count > TAGS_MAX:
        raise Malformed(f"a section of {count} tagged fields; allowed are {TAGS_MAX}")
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


_known_ids: dict[bytes, UUID] = {}  # Creating a UUID costs more than everything else about a topic.
_KNOWN_IDS_MAX = 10_000


def _uuid(view: memoryview | bytes) -> UUID:
    raw = bytes(view)
    known = _known_ids.get(raw)
    if known is None:
        if len(_known_ids) >= _KNOWN_IDS_MAX:
            _known_ids.clear()
        known = _known_ids[raw] = UUID(bytes=raw)
    return known
