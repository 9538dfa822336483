"""The records of one consumer group, by key.

Kinds and numbers are those of Kafka. Each record is complete and replaces the one with the same key. No
record (None) means that the member, the regular expression or the group does not exist. The format in
``__consumer_offsets`` is in :mod:`~tidelog.groups.consumer.record_format`.
"""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from tidelog.groups.consumer.partitions import HELD_NONE, Held, Partitions


class RecordKind(IntEnum):
    """Kafka's numbers: the first two bytes of a record's key."""

    GROUP = 3
    SUBSCRIPTION_METADATA = 4  # of older Kafka brokers; the hash in GROUP replaced it
    MEMBER = 5
    TARGET = 6
    TARGET_MEMBER = 7
    CURRENT_MEMBER = 8
    REGEX = 16


class MemberState(IntEnum):
    """A member's progress towards its target assignment; Kafka's numbers."""

    STABLE = 0
    UNREVOKED = 1  # still holds partitions it must revoke
    UNRELEASED = 2  # has revoked its partitions, waits for other members to do so


class GroupRecord(msgspec.Struct, frozen=True):
    epoch: int  # rises with every change of members, subscriptions or subscribed topics
    metadata_hash: int  # of the subscribed topics when the epoch began


class ClassicProtocols(msgspec.Struct, frozen=True):
    """The stored data of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # (assignor's name, embedded subscription), preferred first


class MemberRecord(msgspec.Struct, frozen=True):
    """A member's identity and subscription."""

    client_id: str
    client_host: str
    topics: tuple[str, ...] = ()  # sorted
    regex: str | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicProtocols | None = None  # None: uses the consumer protocol


class TargetRecord(msgspec.Struct, frozen=True):
    epoch: int  # the group's epoch for which the target was computed
    computed_ms: int


class TargetMemberRecord(msgspec.Struct, frozen=True):
    partitions: Partitions


class CurrentMemberRecord(msgspec.Struct, frozen=True):
    """The current assignment of a member. ``held`` and ``revoking`` have no partition in common."""

    epoch: int  # -2 while a static member is away
    previous_epoch: int
    state: MemberState = MemberState.STABLE
    held: Held = HELD_NONE
    revoking: Held = HELD_NONE  # to be revoked, not yet confirmed


class RegexRecord(msgspec.Struct, frozen=True):
    topics: tuple[str, ...]  # sorted; the ones that matched
    version: int
    resolved_ms: int


Value = (
    GroupRecord | MemberRecord | TargetRecord | TargetMemberRecord | CurrentMemberRecord | RegexRecord | None
)


class Update(NamedTuple):
    kind: RecordKind
    name: str  # member id or regular expression; "" for the group as a whole
    value: Value
