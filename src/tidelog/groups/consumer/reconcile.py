"""One member's next step towards its target: revoke first, assign afterwards.

==============  =======================================  ================================================
state           while                                    then
==============  =======================================  ================================================
STABLE          its epoch is the target's                nothing to do
UNREVOKED       it still owns a partition it must        waits in its old epoch: no other member may have
                revoke, or has not sent what it owns     the partition before it confirms
UNRELEASED      a partition of its target belongs to     has the new epoch and what was free; gets the
                another member                           rest as it becomes free
==============  =======================================  ================================================

A member confirms a revocation by sending the partitions that it owns. Known gap of the protocol: a member
that was assigned a partition, does not send it yet, and loses the next response may begin to read it when
another member already has it. Its epoch is old then, so its next heartbeat or commit is refused, and it
revokes all its partitions.

Pure: from a member's records to its next record.
"""

from collections.abc import Callable
from uuid import UUID

from tidelog.groups.consumer.partitions import (
    HELD_NONE,
    Held,
    Partitions,
    held_since,
    is_in,
    keep,
    merged,
    overlap,
)
from tidelog.groups.consumer.records import CurrentMemberRecord, MemberState

IsFree = Callable[[UUID, int], bool]
"""Whether no other member holds a partition."""


def next_step(
    current: CurrentMemberRecord,
    target_epoch: int,
    target: Partitions,
    owned: Partitions | None,
    is_free: IsFree,
) -> CurrentMemberRecord:
    """The member's record after its heartbeat. ``owned``: the partitions it reports; None if it sends none.

    The target contains only topics to which the member is subscribed.
    """
    if current.state is MemberState.STABLE and current.epoch == target_epoch:
        return current
    kept = keep(current.held, lambda topic_id, index: is_in(target, topic_id, index))
    given_up = keep(current.held, lambda topic_id, index: not is_in(target, topic_id, index))
    if current.state is MemberState.UNREVOKED and _still_owns(owned, current.revoking):
        # A partition that the member must revoke is not given back, even if a newer target contains it: the
        # member may already be revoking it.
        return _moved(current, current.epoch, MemberState.UNREVOKED, kept, merged(current.revoking, given_up))
    if given_up and _still_owns(owned, given_up):
        return _moved(current, current.epoch, MemberState.UNREVOKED, kept, given_up)
    free, all_free = _free(target, kept, is_free)
    state = MemberState.STABLE if all_free else MemberState.UNRELEASED
    return _moved(current, target_epoch, state, merged(kept, held_since(free, target_epoch)), HELD_NONE)


def _still_owns(owned: Partitions | None, given_up: Held) -> bool:
    return owned is None or overlap(owned, given_up)


def _free(target: Partitions, kept: Held, is_free: IsFree) -> tuple[Partitions, bool]:
    """The partitions that the member may get now, and whether they complete its target."""
    free: dict[UUID, frozenset[int]] = {}
    all_free = True
    for topic_id, indexes in target.items():
        wanted = indexes.difference(kept.get(topic_id, ()))
        available = frozenset(index for index in wanted if is_free(topic_id, index))
        all_free = all_free and len(available) == len(wanted)
        if available:
            free[topic_id] = available
    return free, all_free


def _moved(
    current: CurrentMemberRecord, epoch: int, state: MemberState, held: Held, revoking: Held
) -> CurrentMemberRecord:
    if (current.epoch, current.state, current.held, current.revoking) == (epoch, state, held, revoking):
        return current
    # The previous epoch is that of the heartbeat: if the response is lost, the member sends it again.
    return CurrentMemberRecord(epoch, current.epoch, state, held, revoking)
