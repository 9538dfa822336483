"""Changes the protocol of a group while its members continue to read.

Upgrade: the first member with the consumer protocol joins a classic group. The existing members keep their
partitions and rejoin one by one. Downgrade: the last member with the consumer protocol has left. The rest
becomes a classic group again and rebalances. ``group.consumer.migration.policy`` says which is allowed.
"""

from uuid import UUID

from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups import records as classic_records
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.membership import Member
from tidelog.groups.consumer import embedded, subscriptions
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.partitions import Partitions, held_since
from tidelog.groups.consumer.records import (
    ClassicProtocols,
    CurrentMemberRecord,
    GroupRecord,
    MemberRecord,
    RecordKind,
    TargetMemberRecord,
    TargetRecord,
)
from tidelog.groups.consumer.view import GroupContext
from tidelog.protocol.wire import Malformed

_UPWARD = ("bidirectional", "upgrade")
_DOWNWARD = ("bidirectional", "downgrade")
# The data that these attach to an assignment is not needed by the broker's assignors.
_WELL_KNOWN_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


# -- upgrade -------------------------------------------------------------------------------------------------


def upgraded(classic: ClassicGroup, view: GroupContext) -> ConsumerGroup:
    """A consumer group with the members of a classic group. Raises if that is not possible. The classic group
    is not changed.
    """
    _check_upgrade(classic, view.config)
    group = ConsumerGroup(classic.group_id)
    given: set[tuple[UUID, int]] = set()
    for member in classic.members.values():
        try:
            record, assigned = _read_member(classic, member, view)
        except Malformed as error:
            raise _refused(f"the metadata of its members cannot be read ({error.message})") from None
        # A custom assignor may have given a partition to two members; only one can keep it.
        target = {
            topic_id: mine
            for topic_id, indexes in assigned.items()
            if (mine := frozenset(index for index in indexes if (topic_id, index) not in given))
        }
        given.update((topic_id, index) for topic_id, indexes in target.items() for index in indexes)
        _add(group, member.member_id, record, target, classic.generation)
    metadata_hash = subscriptions.metadata_hash(group, view.topics)
    group.put(RecordKind.GROUP, "", GroupRecord(classic.generation, metadata_hash))
    group.put(RecordKind.TARGET, "", TargetRecord(classic.generation, view.now.wall_ms))
    return group


def _check_upgrade(classic: ClassicGroup, config: BrokerConfig) -> None:
    if config.group_consumer_migration_policy not in _UPWARD:
        raise _refused("group.consumer.migration.policy does not allow it")
    if classic.protocol_type != embedded.PROTOCOL_TYPE:
        raise _refused("its members are not consumers")
    if len(classic.members) > config.group_consumer_max_size:
        raise _refused("it has more members than group.consumer.max.size allows")


def _refused(reason: str) -> TidelogError:
    # Clients of this request interpret the code as "the group is of another kind".
    return TidelogError(
        f"the classic group cannot become a consumer group: {reason}", ErrorCode.GROUP_ID_NOT_FOUND
    )


def _read_member(
    classic: ClassicGroup, member: Member, view: GroupContext
) -> tuple[MemberRecord, Partitions]:
    metadata = member.metadata(classic.protocol) or member.protocols[0][1]
    subscription = embedded.read_subscription(metadata)
    assignment = embedded.read_assignment(member.assignment)
    if assignment.user_data and classic.protocol not in _WELL_KNOWN_ASSIGNORS:
        raise _refused("its members use a custom assignor, whose data would be lost")
    record = MemberRecord(
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
    )
    return record, embedded.by_topic_id(assignment.partitions, view.topics)


def _add(
    group: ConsumerGroup, member_id: str, record: MemberRecord, target: Partitions, generation: int
) -> None:
    held = held_since(target, generation)
    group.put(RecordKind.MEMBER, member_id, record)
    group.put(RecordKind.TARGET_MEMBER, member_id, TargetMemberRecord(target))
    group.put(RecordKind.CURRENT_MEMBER, member_id, CurrentMemberRecord(generation, generation, held=held))


# -- downgrade -----------------------------------------------------------------------------------------------


def must_downgrade(group: ConsumerGroup, config: BrokerConfig) -> bool:
    """Whether only members of the classic protocol are left, and may become a classic group again."""
    return (
        bool(group.members)
        and all(member.classic is not None for member in group.members.values())
        and config.group_consumer_migration_policy in _DOWNWARD
        and len(group.members) <= config.group_max_size
    )


def downgraded(group: ConsumerGroup, view: GroupContext) -> classic_records.GroupState:
    """The members as a classic group, each with its partitions: as if its leader had assigned them."""
    protocol = _common_protocol(group)
    members = tuple(
        _written(group, member_id, record, protocol, view) for member_id, record in group.members.items()
    )
    # The members' epoch. With a newer generation their heartbeats would be refused, and they would join as
    # new members.
    generation = group.target_epoch
    return classic_records.GroupState(
        embedded.PROTOCOL_TYPE, generation, protocol, members[0].member_id, view.now.wall_ms, members
    )


def _common_protocol(group: ConsumerGroup) -> str:
    """The first of a member's protocols that all support; every JoinGroup has ensured that there is one."""
    offered = [member.classic.protocols for member in group.members.values() if member.classic is not None]
    names = [name for name, _ in offered[0]]
    return next(name for name in names if all(name in dict(protocols) for protocols in offered))


def _written(
    group: ConsumerGroup, member_id: str, record: MemberRecord, protocol: str, view: GroupContext
) -> classic_records.ClassicMemberRecord:
    classic = record.classic or ClassicProtocols(0, ())
    metadata = dict(classic.protocols).get(protocol, b"")
    held = embedded.by_name(group.current(member_id).held, view.topics)
    return classic_records.ClassicMemberRecord(
        member_id,
        record.instance_id,
        record.client_id,
        record.client_host,
        record.rebalance_timeout_ms,
        classic.session_timeout_ms,
        metadata,
        embedded.write_assignment(embedded.version_of(metadata), held),
    )
