"""The records of a consumer group as bytes: Kafka's own formats, so that Kafka's tools can read them.

A key is a record kind (two bytes), the group id and, for some kinds, the member id or the regular expression,
in the old fixed-width form. A value is a version (always 0) and the fields in the flexible form.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from tidelog.errors import StorageError
from tidelog.groups.consumer import fields
from tidelog.groups.consumer.fields import NO_TAGS, FieldReader
from tidelog.groups.consumer.partitions import Held, partitions_of
from tidelog.groups.consumer.records import (
    ClassicProtocols,
    CurrentMemberRecord,
    GroupRecord,
    MemberRecord,
    MemberState,
    RecordKind,
    RegexRecord,
    TargetMemberRecord,
    TargetRecord,
    Update,
    Value,
)
from tidelog.protocol.wire import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRUCT_ERROR,
    Malformed,
    read_string,
    write_string,
)

KINDS = frozenset(int(kind) for kind in RecordKind)
_NAMED = frozenset({RecordKind.MEMBER, RecordKind.TARGET_MEMBER, RecordKind.CURRENT_MEMBER, RecordKind.REGEX})
_VERSION = INT16.pack(0)


def encode(group_id: str, update: Update) -> tuple[bytes, bytes | None]:
    """(key, value) for the log; the value is None for a deletion."""
    key = INT16.pack(update.kind) + write_string(group_id, False)
    if update.kind in _NAMED:
        key += write_string(update.name, False)
    value = update.value
    return key, None if value is None else _VERSION + _WRITERS[type(value)](value)


def decode(key: bytes, value: bytes | None) -> tuple[str, Update]:
    """(group id, update) of a record in the log whose key begins with one of ``KINDS``."""
    try:
        group_id, kind, name = _read_key(key)
        return group_id, Update(kind, name, None if value is None else _read_value(kind, memoryview(value)))
    except (Malformed, STRUCT_ERROR, IndexError, ValueError) as error:
        raise StorageError(f"a record of a consumer group cannot be read: {error}") from None


def _read_key(key: bytes) -> tuple[str, RecordKind, str]:
    kind = RecordKind(INT16.unpack_from(key, 0)[0])
    group_id, position = read_string(key, 2, False)
    name = read_string(key, position, False)[0] if kind in _NAMED else ""
    if group_id is None or name is None:
        raise Malformed("a key without a name")
    return group_id, kind, name


def _read_value(kind: RecordKind, data: memoryview) -> Value:
    if data[:2] != _VERSION:
        raise Malformed(f"the version of {kind.name} is not known")
    read = _READERS.get(kind)
    return None if read is None else read(FieldReader(data, 2))


def _write_group(record: GroupRecord) -> bytes:
    return INT32.pack(record.epoch) + fields.tagged(0, INT64.pack(record.metadata_hash))


def _read_group(reader: FieldReader) -> GroupRecord:
    epoch = reader.int32()
    hashes = [0]
    reader.tags({0: lambda tag: hashes.append(tag.int64())})
    return GroupRecord(epoch, hashes[-1])


def _write_member(record: MemberRecord) -> bytes:
    return b"".join(
        (
            fields.string(record.instance_id),
            fields.string(record.rack_id),
            fields.string(record.client_id),
            fields.string(record.client_host),
            fields.array(map(fields.string, record.topics)),
            fields.string(record.regex),
            INT32.pack(record.rebalance_timeout_ms),
            fields.string(record.assignor),
            fields.tagged(0, _write_classic(record.classic)),
        )
    )


def _read_member(reader: FieldReader) -> MemberRecord:
    instance_id = reader.nullable_string()
    rack_id = reader.nullable_string()
    client_id = reader.string()
    client_host = reader.string()
    topics = tuple(reader.array(reader.string))
    regex = reader.nullable_string()
    rebalance_timeout_ms = reader.int32()
    assignor = reader.nullable_string()
    classic: list[ClassicProtocols | None] = [None]
    reader.tags({0: lambda tag: classic.append(_read_classic(tag))})
    return MemberRecord(
        client_id,
        client_host,
        topics,
        regex,
        instance_id,
        rack_id,
        rebalance_timeout_ms,
        assignor,
        classic[-1],
    )


_NULL, _PRESENT = b"\x00", b"\x01"  # in front of a tagged struct that may be null


def _write_classic(classic: ClassicProtocols | None) -> bytes:
    if classic is None:
        # Kafka reads a missing field as a struct of zeros, and that as a member of the classic protocol.
        return _NULL
    protocols = (
        fields.string(name) + fields.binary(metadata) + NO_TAGS for name, metadata in classic.protocols
    )
    return _PRESENT + INT32.pack(classic.session_timeout_ms) + fields.array(protocols) + NO_TAGS


def _read_classic(reader: FieldReader) -> ClassicProtocols | None:
    if reader.int8() == 0:
        return None

    def protocol() -> tuple[str, bytes]:
        named = reader.string(), reader.binary()
        reader.tags({})
        return named

    classic = ClassicProtocols(reader.int32(), tuple(reader.array(protocol)))
    reader.tags({})
    return classic


def _write_target(record: TargetRecord) -> bytes:
    return INT32.pack(record.epoch) + fields.tagged(0, INT64.pack(record.computed_ms))


def _read_target(reader: FieldReader) -> TargetRecord:
    epoch = reader.int32()
    times = [0]
    reader.tags({0: lambda tag: times.append(tag.int64())})
    return TargetRecord(epoch, times[-1])


def _write_target_member(record: TargetMemberRecord) -> bytes:
    return fields.array(map(_write_topic, record.partitions.items())) + NO_TAGS


def _write_topic(topic: tuple[UUID, Iterable[int]]) -> bytes:
    return topic[0].bytes + fields.array(map(INT32.pack, sorted(topic[1]))) + NO_TAGS


def _read_target_member(reader: FieldReader) -> TargetMemberRecord:
    def topic() -> tuple[UUID, list[int]]:
        named = reader.uuid(), reader.array(reader.int32)
        reader.tags({})
        return named

    record = TargetMemberRecord(partitions_of(reader.array(topic)))
    reader.tags({})
    return record


def _write_current_member(record: CurrentMemberRecord) -> bytes:
    return b"".join(
        (
            INT32.pack(record.epoch),
            INT32.pack(record.previous_epoch),
            INT8.pack(record.state),
            fields.array(map(_write_held, record.held.items())),
            fields.array(map(_write_held, record.revoking.items())),
            NO_TAGS,
        )
    )


def _write_held(topic: tuple[UUID, Mapping[int, int]]) -> bytes:
    topic_id, epochs = topic
    indexes = sorted(epochs)
    since = fields.array(INT32.pack(epochs[index]) for index in indexes)
    return topic_id.bytes + fields.array(map(INT32.pack, indexes)) + fields.tagged(0, since)


def _read_current_member(reader: FieldReader) -> CurrentMemberRecord:
    epoch, previous_epoch = reader.int32(), reader.int32()
    state = MemberState(reader.int8())
    held, revoking = _read_held(reader, epoch), _read_held(reader, epoch)
    reader.tags({})
    return CurrentMemberRecord(epoch, previous_epoch, state, held, revoking)


def _read_held(reader: FieldReader, epoch: int) -> Held:
    def topic() -> tuple[UUID, Mapping[int, int]]:
        topic_id, indexes = reader.uuid(), reader.array(reader.int32)
        since: list[list[int]] = []
        reader.tags({0: lambda tag: since.append(tag.array(tag.int32))})
        # Kafka before 4.3 does not write it: the member's epoch is the latest possible.
        epochs = since[0] if since else [epoch] * len(indexes)
        return topic_id, dict(zip(indexes, epochs, strict=True))

    return {topic_id: epochs for topic_id, epochs in reader.array(topic) if epochs}


def _write_regex(record: RegexRecord) -> bytes:
    topics = fields.array(map(fields.string, record.topics))
    return topics + INT64.pack(record.version) + INT64.pack(record.resolved_ms) + NO_TAGS


def _read_regex(reader: FieldReader) -> RegexRecord:
    record = RegexRecord(tuple(reader.array(reader.string)), reader.int64(), reader.int64())
    reader.tags({})
    return record


_WRITERS: dict[type, Callable[[Any], bytes]] = {
    GroupRecord: _write_group,
    MemberRecord: _write_member,
    TargetRecord: _write_target,
    TargetMemberRecord: _write_target_member,
    CurrentMemberRecord: _write_current_member,
    RegexRecord: _write_regex,
}
_READERS: dict[RecordKind, Callable[[FieldReader], Value]] = {
    RecordKind.GROUP: _read_group,
    RecordKind.MEMBER: _read_member,
    RecordKind.TARGET: _read_target,
    RecordKind.TARGET_MEMBER: _read_target_member,
    RecordKind.CURRENT_MEMBER: _read_current_member,
    RecordKind.REGEX: _read_regex,
}
