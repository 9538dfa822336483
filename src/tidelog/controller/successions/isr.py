"""``isr``: the controller appoints the leader.

The order of candidates: members of the in-sync set; then former members that left while the set was below the
minimum (nothing was committed without them, so they hold everything that was); then, if no replica of either
kind is known to be complete, the last leader once it is back; then, only if the topic allows it, any replica.

A replica that is being added leads only as a member, or on request of an operator. A partitioned leader keeps
leading while all replicas that it knows of follow it, and it may not have heard of the reassignment.

The last leader may have come back with fewer records, and replicas that left the set before it or lost power
with it may have kept more. So it is first appointed outside the in-sync set: it asks the available replicas,
copies the newest log, and then joins the set (:mod:`tidelog.replication.attachments.restorer`).

Among equal candidates a broker that is shutting down or drained comes last, and loses its leadership as soon
as another one can lead.
"""

from collections.abc import Set as AbstractSet

import msgspec

from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions.steps import Rules, finish_move, led_by, minimum, serves, union
from tidelog.types import NO_BROKER


def next_state(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """The partition after brokers started or failed. Equal to the present one if nothing has to change."""
    if (
        partition.leader in available.willing
        and partition.leader in partition.in_sync
        and not partition.eligible
        and not partition.offline
        and not partition.is_moving
        and available.unfenced.issuperset(partition.in_sync)
    ):
        return partition
    members = tuple(replica for replica in partition.in_sync if serves(partition, replica, available))
    if members and len(members) < len(partition.in_sync) and not any(map(available.hears, members)):
        return _wait_for_word(partition, members)
    if members:
        assigned = _led_by_member(partition, members, available, rules)
    else:
        assigned = _led_by_other(partition, available, rules)
    return _look_for_the_end(assigned, available)


def _wait_for_word(partition: PartitionImage, members: tuple[int, ...]) -> PartitionImage:
    """Some members are lost, and the remaining ones may be, too: the in-sync set does not shrink to them yet.
    If they are dead and come back without their newest records, a member that had been removed in their
    favour would be the one that held everything.
    """
    leader = partition.leader if partition.leader in members else NO_BROKER
    return led_by(partition, leader, partition.in_sync, partition.eligible)


def may_be_led(partition: PartitionImage, available: BrokerAvailability) -> bool:
    """Whether the last leader may still act on its session, and acknowledge records alone if it is alone in
    the in-sync set. A leader that is not a member would lack them. One that is a member would not: nothing is
    committed without it.
    """
    return partition.leader == NO_BROKER and _in_session(partition, available)


def _in_session(partition: PartitionImage, available: BrokerAvailability) -> bool:
    return not available.in_session.isdisjoint(partition.replicas)


def with_members(partition: PartitionImage, members: tuple[int, ...], rules: Rules) -> PartitionImage:
    """The partition with another in-sync set, as its leader proposes."""
    eligible: tuple[int, ...] = ()
    if len(members) < minimum(partition, rules):
        gone = tuple(replica for replica in partition.in_sync if replica not in members)
        eligible = union(partition.eligible, gone, without=members)
    return msgspec.structs.replace(partition, in_sync=members, eligible=eligible)


def force(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """Any available replica leads, whatever it lacks. One that is being added comes last."""
    forced = next_state(partition, available, rules._replace(unclean_allowed=True))
    added = [replica for replica in partition.adding if serves(partition, replica, available)]
    if forced.leader != NO_BROKER or not added or _in_session(partition, available):
        return forced
    return _look_for_the_end(_led_uncleanly(partition, available.best(added)), available)


def stand_in(partition: PartitionImage, present: AbstractSet[int], *, undecided: bool) -> int:
    """A replica that holds everything committed serves readers, while no controllers can appoint a leader.
    The last leader comes first: it may know of more committed records than its followers.
    """
    if not undecided:
        return NO_BROKER
    complete = (*partition.in_sync, *partition.eligible)
    able = [
        replica
        for replica in partition.replicas
        if replica in present and replica in complete and replica not in partition.offline
    ]
    return min(able, key=lambda replica: replica != partition.last_leader, default=NO_BROKER)


def _led_by_member(
    partition: PartitionImage, members: tuple[int, ...], available: BrokerAvailability, rules: Rules
) -> PartitionImage:
    leader = partition.leader
    if leader not in members or leader not in available.willing:
        best = available.best(replica for replica in partition.replicas if replica in members)
        # A leader that should not lead stays if no other member should lead either.
        if leader not in members or best in available.willing:
            leader = best
    gone = tuple(replica for replica in partition.in_sync if replica not in members)
    eligible: tuple[int, ...] = ()
    if len(members) < minimum(partition, rules):
        # From here on nothing is committed, so a replica that leaves now keeps everything that was.
        eligible = union(partition.eligible, gone, without=members)
    return led_by(partition, leader, members, eligible)


def _led_by_other(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """No member of the in-sync set is available."""
    present = [replica for replica in partition.replicas if serves(partition, replica, available)]
    complete = [replica for replica in present if replica in partition.eligible]
    if complete:
        leader = available.best(complete)
        rest: tuple[int, ...] = ()
        if minimum(partition, rules) > 1:
            rest = union(partition.eligible, partition.in_sync, without=(leader,))
        return led_by(partition, leader, (leader,), rest)
    if not partition.in_sync and not partition.eligible and partition.last_leader in present:
        last = partition.last_leader
        members = (last,) if partition.replicas == (last,) else ()  # No other replica could have kept more.
        return led_by(partition, last, members, (), unclean=True)
    known = [replica for replica in present if replica not in partition.adding]
    if rules.unclean_allowed and known and not _in_session(partition, available):
        return _led_uncleanly(partition, available.best(known))
    if partition.leader in available.unfenced:
        # Its log accepts no writes any more, but it is the only replica that can serve readers.
        return partition
    return led_by(partition, NO_BROKER, partition.in_sync, partition.eligible)


def _led_uncleanly(partition: PartitionImage, leader: int) -> PartitionImage:
    return led_by(partition, leader, (leader,), (), unclean=True)


def _look_for_the_end(partition: PartitionImage, available: BrokerAvailability) -> PartitionImage:
    """When every replica of the target is in sync, the others are removed. If the leader is one of them,
    another one leads.
    """
    target = partition.target
    if not partition.is_moving or partition.leader == NO_BROKER:
        return partition
    if not set(target) <= set(partition.in_sync):
        return partition
    leader = partition.leader if partition.leader in target else available.best(target)
    return finish_move(led_by(partition, leader, partition.in_sync, ()))
