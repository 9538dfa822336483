"""The records of offsets and classic groups as bytes: Kafka's own format, so that its tools can read them.

A key is a record kind (two bytes) and its fields in the old fixed-width form. A value is a version (two
bytes) and its fields. This module writes these kinds:

====== ================================  ==========================================================
kind   key                               value, version 3
====== ================================  ==========================================================
0, 1   group, topic, partition           an offset (versions 0 to 4 are read)
2      group                             a classic group with its members (versions 0 to 4 are read)
====== ================================  ==========================================================

Other kinds belong to other modules or to newer brokers; :func:`decode` returns None for them.
"""

from typing import NamedTuple

from tidelog.errors import StorageError
from tidelog.groups.effects import KeyValue
from tidelog.groups.offsets import Committed
from tidelog.protocol.wire import (
    INT16,
    INT32,
    INT64,
    STRUCT_ERROR,
    Malformed,
    read_array_size,
    read_bytes,
    read_string,
    skip_tags,
    write_array_size,
    write_string,
)

OFFSET_KINDS = (0, 1)
GROUP_KIND = 2
_OFFSET_KEY = INT16.pack(1)
_GROUP_KEY = INT16.pack(GROUP_KIND)
_VERSION = INT16.pack(3)
_FLEXIBLE_FROM = 4


class OffsetRecord(NamedTuple):
    group_id: str
    topic: str
    partition: int
    committed: Committed | None  # None: deleted


class ClassicMemberRecord(NamedTuple):
    """A member of a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes  # the metadata for the chosen protocol
    assignment: bytes


class GroupState(NamedTuple):
    """The part of a classic group that is kept when its coordinator changes."""

    protocol_type: str
    generation: int
    protocol: str | None  # the chosen one
    leader: str | None
    since_ms: int  # wall clock: when it entered its state; -1 in records of old brokers
    members: tuple[ClassicMemberRecord, ...]


class ClassicGroupRecord(NamedTuple):
    group_id: str
    state: GroupState | None  # None: deleted


def kind_of(key: bytes) -> int:
    if len(key) < INT16.size:
        raise StorageError("the key of a record of a group has no kind")
    kind: int = INT16.unpack_from(key)[0]
    return kind


# -- writing -------------------------------------------------------------------------


def offset_record(group_id: str, topic: str, partition: int, committed: Committed | None) -> KeyValue:
    key = _OFFSET_KEY + write_string(group_id, False) + write_string(topic, False) + INT32.pack(partition)
    if committed is None:
        return key, None
    if committed.expire_ms >= 0:
        # As in Kafka: only version 1 has an expiry time, and it has no leader epoch.
        return key, b"".join(
            (
                INT16.pack(1), INT64.pack(committed.offset), write_string(committed.metadata, False),
                INT64.pack(committed.commit_ms), INT64.pack(committed.expire_ms),
            )
        )  # fmt: skip
    return key, b"".join(
        (
            _VERSION, INT64.pack(committed.offset), INT32.pack(committed.leader_epoch),
            write_string(committed.metadata, False), INT64.pack(committed.commit_ms),
        )
    )  # fmt: skip


def group_record(group_id: str, state: GroupState | None) -> KeyValue:
    key = _GROUP_KEY + write_string(group_id, False)
    if state is None:
        return key, None
    parts = [
        _VERSION,
        write_string(state.protocol_type, False),
        INT32.pack(state.generation),
        write_string(state.protocol, False),
        write_string(state.leader, False),
        INT64.pack(state.since_ms),
        write_array_size(len(state.members), False),
    ]
    for member in state.members:
        parts += (
            write_string(member.member_id, False),
            write_string(member.instance_id, False),
            write_string(member.client_id, False),
            write_string(member.client_host, False),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.session_timeout_ms),
            INT32.pack(len(member.subscription)),
            member.subscription,
            INT32.pack(len(member.assignment)),
            member.assignment,
        )
    return key, b"".join(parts)


# -- reading -------------------------------------------------------------------------


def decode(key: bytes, value: bytes | None) -> OffsetRecord | ClassicGroupRecord | None:
    """Decode a record. Returns None for another kind; raises StorageError for an invalid record."""
    kind = kind_of(key)
    try:
        if kind in OFFSET_KINDS:
            return _offset(_Reader(key, 2), value)
        if kind == GROUP_KIND:
            group_id = _Reader(key, 2).string()
            return ClassicGroupRecord(group_id, None if value is None else _group(value))
    except (Malformed, STRUCT_ERROR, IndexError, UnicodeDecodeError) as error:
        raise StorageError(f"a record of a group cannot be read: {error}") from None
    return None


class _Reader:
    """Reads one field after another."""

    __slots__ = ("_data", "_position", "flexible")

    def __init__(self, data: bytes, position: int, flexible: bool = False) -> None:
        self._data = memoryview(data)
        self._position = position
        self.flexible = flexible

    def int32(self) -> int:
        value: int = INT32.unpack_from(self._data, self._position)[0]
        self._position += 4
        return value

    def int64(self) -> int:
        value: int = INT64.unpack_from(self._data, self._position)[0]
        self._position += 8
        return value

    def nullable_string(self) -> str | None:
        value, self._position = read_string(self._data, self._position, self.flexible)
        return value

    def string(self) -> str:
        return self.nullable_string() or ""

    def bytes(self) -> bytes:
        value, self._position = read_bytes(self._data, self._position, self.flexible)
        return b"" if value is None else bytes(value)

    def array_size(self) -> int:
        size, self._position = read_array_size(self._data, self._position, self.flexible)
        return size

    def end_struct(self) -> None:
        if self.flexible:
            self._position = skip_tags(self._data, self._position)


def _versioned(value: bytes) -> tuple[int, _Reader]:
    """An unknown newer version is read as the newest known one: Kafka only adds tagged fields to these."""
    version: int = INT16.unpack_from(value)[0]
    return version, _Reader(value, 2, version >= _FLEXIBLE_FROM)


def _offset(key: _Reader, value: bytes | None) -> OffsetRecord:
    group_id, topic, partition = key.string(), key.string(), key.int32()
    if value is None:
        return OffsetRecord(group_id, topic, partition, None)
    version, fields = _versioned(value)
    offset = fields.int64()
    leader_epoch = fields.int32() if version >= 3 else -1
    metadata, commit_ms = fields.string(), fields.int64()
    expire_ms = fields.int64() if version == 1 else -1
    committed = Committed(offset, leader_epoch, metadata, commit_ms, expire_ms)
    return OffsetRecord(group_id, topic, partition, committed)


def _group(value: bytes) -> GroupState:
    version, fields = _versioned(value)
    protocol_type, generation = fields.string(), fields.int32()
    protocol, leader = fields.nullable_string(), fields.nullable_string()
    since_ms = fields.int64() if version >= 2 else -1
    members = tuple([_member(version, fields) for _ in range(fields.array_size())])
    return GroupState(protocol_type, generation, protocol, leader, since_ms, members)


def _member(version: int, fields: _Reader) -> ClassicMemberRecord:
    member_id = fields.string()
    instance_id = fields.nullable_string() if version >= 3 else None
    client_id, client_host = fields.string(), fields.string()
    rebalance_timeout_ms = fields.int32() if version >= 1 else -1
    session_timeout_ms = fields.int32()
    if version < 1:
        rebalance_timeout_ms = session_timeout_ms
    subscription, assignment = fields.bytes(), fields.bytes()
    fields.end_struct()
    return ClassicMemberRecord(
        member_id, instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms,
        subscription, assignment,
    )  # fmt: skip
