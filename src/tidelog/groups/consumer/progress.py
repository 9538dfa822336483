"""How a group progresses: a new epoch after a change, a new target for it, one member's next step.

Shared by members with both protocols. Callers have made all checks; these functions refuse nothing.
"""

from collections import Counter
from collections.abc import Iterable
from uuid import UUID

from tidelog.groups.consumer import subscriptions
from tidelog.groups.consumer.assignors import ASSIGNORS
from tidelog.groups.consumer.assignors.spec import GroupSpec, MemberSpec
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.partitions import Partitions
from tidelog.groups.consumer.reconcile import next_step
from tidelog.groups.consumer.records import (
    GroupRecord,
    MemberRecord,
    MemberState,
    RecordKind,
    TargetMemberRecord,
    TargetRecord,
)
from tidelog.groups.consumer.view import GroupContext
from tidelog.groups.consumer.waits import WaitReason


def set_member(group: ConsumerGroup, member_id: str, record: MemberRecord, view: GroupContext) -> None:
    """A member joined, or changed its description."""
    old = group.members.get(member_id)
    group.put(RecordKind.MEMBER, member_id, record)
    subscription_changed = old is None or (old.topics, old.regex) != (record.topics, record.regex)
    follow_topics(group, view, changed=subscription_changed)


def take_over(group: ConsumerGroup, old_id: str, new_id: str) -> None:
    """A static member returned with another id. It keeps its partitions, so the others are not affected."""
    member, current, target = group.members[old_id], group.current(old_id), group.target(old_id)
    _drop(group, old_id)
    group.put(RecordKind.MEMBER, new_id, member)
    group.put(RecordKind.TARGET_MEMBER, new_id, TargetMemberRecord(target))
    # The new process owns no partitions yet, so there is nothing to revoke.
    back = type(current)(epoch=0, previous_epoch=0, state=current.state, held=current.held)
    group.put(RecordKind.CURRENT_MEMBER, new_id, back)


def remove(group: ConsumerGroup, member_ids: Iterable[str], view: GroupContext) -> None:
    """Members leave or are removed; their partitions are free."""
    for member_id in member_ids:
        _drop(group, member_id)
    follow_topics(group, view, changed=True)


def _drop(group: ConsumerGroup, member_id: str) -> None:
    for kind in (RecordKind.CURRENT_MEMBER, RecordKind.TARGET_MEMBER, RecordKind.MEMBER):
        group.put(kind, member_id, None)
    group.waits.forget(member_id)


def follow_topics(group: ConsumerGroup, view: GroupContext, *, changed: bool = False) -> None:
    """Begin a new epoch if members, subscriptions, or the subscribed topics have changed."""
    if not changed and group.seen_topics is view.topics.topics and group.seen_rules is view.matches.rules:
        return
    changed = subscriptions.resolve(group, view) or changed
    metadata_hash = subscriptions.metadata_hash(group, view.topics)
    if changed or metadata_hash != group.metadata_hash:
        group.put(RecordKind.GROUP, "", GroupRecord(group.epoch + 1, metadata_hash))


def advance(group: ConsumerGroup, member_id: str, owned: Partitions | None, view: GroupContext) -> None:
    """Move a member as far towards the newest target as possible now."""
    if group.epoch > group.target_epoch:
        _retarget(group, view)

    def is_free(topic_id: UUID, index: int) -> bool:
        return group.owner(topic_id, index) in (None, member_id)

    before = group.current(member_id)
    after = next_step(before, group.target_epoch, group.target(member_id), owned, is_free)
    group.put(RecordKind.CURRENT_MEMBER, member_id, after)
    if after.state is not MemberState.UNREVOKED:
        group.waits.cancel(member_id, WaitReason.REVOCATION)
    elif after != before and group.members[member_id].classic is None:
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        group.waits.set(member_id, WaitReason.REVOCATION, view.now.uptime_ms + timeout_ms)


def _retarget(group: ConsumerGroup, view: GroupContext) -> None:
    """Compute a target for the newest epoch; only differences from the last target are written."""
    targets = ASSIGNORS[assignor_name(group, view)](_spec(group, view))
    for member_id, partitions in targets.items():
        if partitions != group.target(member_id):
            group.put(RecordKind.TARGET_MEMBER, member_id, TargetMemberRecord(partitions))
    group.put(RecordKind.TARGET, "", TargetRecord(group.epoch, view.now.wall_ms))
    group.retargeted_ms = view.now.uptime_ms


def assignor_name(group: ConsumerGroup, view: GroupContext) -> str:
    """The assignor that most members ask for; in a tie the first one in the settings."""
    names = view.config.group_consumer_assignors
    votes = Counter(member.assignor for member in group.members.values() if member.assignor in names)
    return max(names, key=lambda name: votes[name])


def _spec(group: ConsumerGroup, view: GroupContext) -> GroupSpec:
    members = {
        member_id: MemberSpec(
            member.instance_id,
            subscriptions.topic_ids(group, member, view.topics),
            group.target(member_id),
        )
        for member_id, member in group.members.items()
    }
    topics, names = view.topics.topics, view.topics.topic_names
    wanted: set[UUID] = set().union(*(member.topics for member in members.values()))
    return GroupSpec(members, {topic_id: len(topics[names[topic_id]].partitions) for topic_id in wanted})
