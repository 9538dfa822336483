"""The payloads of consumers inside JoinGroup and SyncGroup of the classic protocol.

These are the formats of Kafka's "consumer" protocol type: subscriptions (versions 0 to 3, newer ones are read
as 3) and assignments. The coordinator of a classic group forwards both without decoding them. That of a
consumer group must read subscriptions and write assignments.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog.groups.consumer.partitions import Held, Partitions, partitions_of
from tidelog.groups.consumer.view import Topics
from tidelog.protocol.wire import (
    INT16,
    INT32,
    STRUCT_ERROR,
    Malformed,
    read_array_size,
    read_bytes,
    read_string,
    write_array_size,
    write_string,
)

PROTOCOL_TYPE = "consumer"
_OWNED_FROM, _GENERATION_FROM, _RACK_FROM = 1, 2, 3
_NEWEST = 3
_NO_BYTES = INT32.pack(-1)

NamedPartitions = tuple[tuple[str, tuple[int, ...]], ...]


class Subscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: NamedPartitions = ()  # empty if the member revokes everything before it joins
    rack_id: str | None = None


class Assignment(NamedTuple):
    partitions: NamedPartitions
    user_data: bytes  # of a custom assignor


def read_subscription(data: bytes) -> Subscription:
    """Raises :class:`Malformed`."""
    try:
        return _Reader(data).subscription()
    except (STRUCT_ERROR, IndexError) as error:
        raise Malformed(f"a subscription ends too early: {error}") from None


def version_of(subscription: bytes) -> int:
    """The version that a member writes and therefore can read."""
    return int(INT16.unpack_from(subscription)[0]) if len(subscription) >= INT16.size else 0


def read_assignment(data: bytes) -> Assignment:
    """Raises :class:`Malformed`. Empty bytes mean no partitions."""
    if not data:
        return Assignment((), b"")
    try:
        return _Reader(data).assignment()
    except (STRUCT_ERROR, IndexError) as error:
        raise Malformed(f"an assignment ends too early: {error}") from None


def write_assignment(version: int, partitions: Mapping[str, Iterable[int]]) -> bytes:
    parts = [INT16.pack(min(version, _NEWEST)), write_array_size(len(partitions), False)]
    for topic, indexes in sorted(partitions.items()):
        ordered = sorted(indexes)
        parts += (write_string(topic, False), write_array_size(len(ordered), False))
        parts += map(INT32.pack, ordered)
    return b"".join((*parts, _NO_BYTES))


def by_topic_id(named: NamedPartitions, topics: Topics) -> Partitions:
    """The partitions of existing topics, by topic id."""
    known = topics.topics
    return partitions_of((known[name].topic_id, indexes) for name, indexes in named if name in known)


def by_name(held: Held, topics: Topics) -> dict[str, list[int]]:
    names: Mapping[UUID, str] = topics.topic_names
    return {names[topic_id]: list(epochs) for topic_id, epochs in held.items() if topic_id in names}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._position = 0

    def subscription(self) -> Subscription:
        version = self._int16()
        topics = tuple(self._string() for _ in range(self._size()))
        self._bytes()
        owned = self._partitions() if version >= _OWNED_FROM else ()
        if version >= _GENERATION_FROM:
            self._int32()
        rack_id = self._nullable_string() if version >= _RACK_FROM else None
        return Subscription(version, topics, owned, rack_id)

    def assignment(self) -> Assignment:
        self._int16()
        return Assignment(self._partitions(), self._bytes())

    def _partitions(self) -> NamedPartitions:
        return tuple(
            (self._string(), tuple(self._int32() for _ in range(self._size()))) for _ in range(self._size())
        )

    def _int16(self) -> int:
        (value,) = INT16.unpack_from(self._data, self._position)
        self._position += 2
        if value < 0:
            raise Malformed(f"version {value} of the consumer protocol")
        return int(value)

    def _int32(self) -> int:
        (value,) = INT32.unpack_from(self._data, self._position)
        self._position += 4
        return int(value)

    def _size(self) -> int:
        size, self._position = read_array_size(self._data, self._position, False)
        return size

    def _nullable_string(self) -> str | None:
        value, self._position = read_string(self._data, self._position, False)
        return value

    def _string(self) -> str:
        return self._nullable_string() or ""

    def _bytes(self) -> bytes:
        value, self._position = read_bytes(self._data, self._position, False)
        return b"" if value is None else bytes(value)
