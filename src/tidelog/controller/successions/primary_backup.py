"""``primary-backup``: the first replica of the placement leads, or no replica does.

================== ======================= ===================================================================
the primary        the partition then has  because
================== ======================= ===================================================================
serves, complete   it as leader            it holds everything that was ever acknowledged
serves, incomplete it as leader, outside   it lost data (power, another disk) or was promoted: it copies back
                   the in-sync set         what others hold, accepts no writes before, and then joins the set
is unavailable     no leader               no other replica may accept writes; backups serve readers
================== ======================= ===================================================================

The last leader is *complete* as long as nothing is known that could have cost it records. The in-sync set
also contains the backups that serve and have caught up since they started. ``eligible`` contains the replicas
that have left that set and still hold everything they acknowledged: with those a primary can tell whether it
has seen every record.

A reassignment ends in two steps. When all replicas that stay are members, copies on the others do not count
any more (``ending``). A slow backup stays a member, so it may still lack records that only the primary and a
removed replica hold. The old replicas are removed when the primary has confirmed that the others hold as many
copies as are required.
"""

from collections.abc import Set as AbstractSet

import msgspec

from tidelog.controller.availability import BrokerAvailability
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions.steps import Rules, finish_move, serves, union
from tidelog.types import NO_BROKER


def next_state(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """The partition after brokers started or failed. Equal to the present one if nothing has to change."""
    primary = _primary(partition)
    members = tuple(replica for replica in partition.in_sync if serves(partition, replica, available))
    if not serves(partition, primary, available):
        return _led_by(partition, NO_BROKER, members)
    if _is_whole(partition, primary):
        if partition.leader != primary:
            members = (primary,)  # Backups have to show again that they have caught up.
        led = _led_by(partition, primary, members)
        return _look_for_the_end(msgspec.structs.replace(led, last_leader=primary))
    return _led_by(partition, primary, _without(members, primary))


def with_members(partition: PartitionImage, members: tuple[int, ...], rules: Rules) -> PartitionImage:
    """The partition with another in-sync set, as its leader proposes."""
    return _led_by(partition, partition.leader, members)


def force(partition: PartitionImage, available: BrokerAvailability, rules: Rules) -> PartitionImage:
    """On request of an operator: the primary leads with the records that it can collect, whatever is missing
    then.
    """
    primary = partition.target[0]
    if not serves(partition, primary, available):
        return _led_by(partition, NO_BROKER, partition.in_sync)
    epoch = partition.leader_epoch + 1
    forced = _led_by(partition, primary, _without(partition.in_sync, primary))
    return msgspec.structs.replace(forced, leader_epoch=epoch, unclean_epoch=epoch)


def stand_in(partition: PartitionImage, present: AbstractSet[int], *, undecided: bool) -> int:
    """The backup that serves readers: the first available one that has caught up, otherwise the first
    available one.
    """
    able = [
        replica
        for replica in partition.replicas
        if replica in present and replica not in (partition.leader, *partition.offline)
    ]
    return min(able, key=lambda replica: replica not in partition.in_sync, default=NO_BROKER)


def _primary(partition: PartitionImage) -> int:
    """The replica that leads if it can. During a reassignment the old primary leads until the new replicas
    have caught up; it is then still there to give the new primary the newest records.
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
        # A new epoch also when the leadership ends: later messages of the old leader must be refused.
        leader_epoch=partition.leader_epoch + (leader != partition.leader),
        in_sync=in_sync,
        eligible=union(partition.eligible, partition.in_sync, without=in_sync),
        # It continues only while nothing changes: otherwise the primary counts all copies again.
        ending=partition.ending and leader == partition.leader and set(partition.target) <= set(in_sync),
    )


def _look_for_the_end(partition: PartitionImage) -> PartitionImage:
    """When the new primary leads and all others have caught up, copies on the old replicas do not count any
    more. If no replica is removed, the reassignment is complete.
    """
    target = partition.target
    if not partition.is_moving or partition.leader != target[0] or not set(target) <= set(partition.in_sync):
        return partition
    if not partition.removing:
        return finish_move(partition)
    if partition.ending:
        return partition
    # A new promise epoch: a confirmation for another setting or another reassignment does not count here.
    return msgspec.structs.replace(partition, ending=True, promise_epoch=partition.promise_epoch + 1)


def _without(replicas: tuple[int, ...], one: int) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica != one)
