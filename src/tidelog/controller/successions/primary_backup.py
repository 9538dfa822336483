"""``primary-backup``: the placement's first replica leads, or nobody does.

================== ======================= ================================================================
the primary        the partition then has  because
================== ======================= ================================================================
serves, is whole   it as leader            it holds everything that was ever acknowledged
serves, not whole  it as leader, outside   it forgot (power, another disk) or was promoted: it copies back
                   the in-sync set         what others hold, takes nothing before, and joins the set then
is away            no leader               nobody else may write; backups serve readers
================== ======================= ================================================================

*Whole* is the last leader as long as nothing is known of it that could have cost it records. The in-sync set
besides: backups that serve and were seen to have caught up since they came. ``eligible`` remembers who has
left that set and still holds everything it acknowledged: with those a primary can tell whether it has heard
of every record.

A move ends in two steps. When all replicas that are to stay are members, copies on the others count no more
(``ending``). A slow backup stays a member, so it may still lack what the primary and one of those that go
hold: they go when the primary has confirmed that the others hold as many copies as are asked for.
"""

from collections.abc import Set as AbstractSet

import msgspec

from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions.steps import Rules, finish_move, serves, union
from tidelog.types import NO_BROKER


def next_state(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """The partition after brokers came or went. Equal to the present one where nothing has to change."""
    primary = _primary(partition)
    members = tuple(replica for replica in partition.in_sync if serves(partition, replica, available))
    if not serves(partition, primary, available):
        return _led_by(partition, NO_BROKER, members)
    if _is_whole(partition, primary):
        if partition.leader != primary:
            members = (primary,)  # Backups show anew that they have caught up.
        led = _led_by(partition, primary, members)
        return _look_for_the_end(msgspec.structs.replace(led, last_leader=primary))
    return _led_by(partition, primary, _without(members, primary))


def with_members(partition: PartitionImage, members: tuple[int, ...], rules: Rules) -> PartitionImage:
    """The partition with another in-sync set, as its leader wants it."""
    return _led_by(partition, partition.leader, members)


def force(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """By an operator's wish: the primary leads with what it can gather, whatever is missing then."""
    primary = partition.target[0]
    if not serves(partition, primary, available):
        return _led_by(partition, NO_BROKER, partition.in_sync)
    epoch = partition.leader_epoch + 1
    forced = _led_by(partition, primary, _without(partition.in_sync, primary))
    return msgspec.structs.replace(forced, leader_epoch=epoch, unclean_epoch=epoch)


def stand_in(partition: PartitionImage, present: AbstractSet[int]) -> int:
    """The backup that readers are sent to: the first one that is there, one that has caught up before one
    that has not.
    """
    able = [
        replica
        for replica in partition.replicas
        if replica in present and replica not in (partition.leader, *partition.offline)
    ]
    return min(able, key=lambda replica: replica not in partition.in_sync, default=NO_BROKER)


def _primary(partition: PartitionImage) -> int:
    """Who leads if it can. While replicas are moved, the old primary does until the new ones have caught up;
    it is then still there to give the new primary what came last.
    """
    first, last = partition.target[0], partition.last_leader
    if not partition.is_moving or last not in partition.replicas or partition.leader == first:
        return first
    return first if set(partition.target) <= set(partition.in_sync) else last


def _is_whole(partition: PartitionImage, primary: int) -> bool:
    if partition.leader in partition.in_sync:
        return primary == partition.leader
    return primary == partition.last_leader and primary in (*partition.in_sync, *partition.eligible)


def _led_by(partition: PartitionImage, leader: int, in_sync: tuple[int, ...]) -> PartitionImage:
    return msgspec.structs.replace(
        partition,
        leader=leader,
        # A new epoch also when the leadership ends: what the old leader still says must be refused.
        leader_epoch=partition.leader_epoch + (leader != partition.leader),
        in_sync=in_sync,
        eligible=union(partition.eligible, partition.in_sync, without=in_sync),
        # It goes on only while everything is as it was: the primary counts all copies again otherwise.
        ending=partition.ending and leader == partition.leader and set(partition.target) <= set(in_sync),
    )


def _look_for_the_end(partition: PartitionImage) -> PartitionImage:
    """When the new primary leads and all others have caught up, the copies of the old replicas do not count
    any more; where nobody goes, that is all.
    """
    target = partition.target
    if not partition.is_moving or partition.leader != target[0] or not set(target) <= set(partition.in_sync):
        return partition
    if not partition.removing:
        return finish_move(partition)
    if partition.ending:
        return partition
    # With a number of its own: what was confirmed for another setting or another move says nothing here.
    return msgspec.structs.replace(partition, ending=True, promise_epoch=partition.promise_epoch + 1)


def _without(replicas: tuple[int, ...], one: int) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica != one)
