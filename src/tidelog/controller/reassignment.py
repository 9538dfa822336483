"""Reassignment: moving replicas to other brokers. It starts here, and the successions complete it when the
new replicas have caught up.

During a reassignment a partition has the old replicas and the new ones; ``adding`` and ``removing`` tell them
apart. The old ones are removed only when every new one is in sync: at no time are there fewer copies than
before.
"""

from collections.abc import Iterator, Sequence

import msgspec

from tidelog.config.modes import LEAST_REPLICAS
from tidelog.controller.availability import BrokerAvailability, Rank, same_rank
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leadership import PartitionPlace, every_place, find
from tidelog.controller.records import MetadataRecord
from tidelog.controller.successions import in_a_new_epoch, leavers, mode_changes, next_state
from tidelog.controller.successions.promising import promised
from tidelog.controller.successions.steps import Rules, RulesOf, minimum, record_of
from tidelog.errors import ErrorCode, TidelogError


def begin(
    image: ClusterImage,
    name: str,
    index: int,
    target: Sequence[int],
    rules_of: RulesOf,
    rank: Rank = same_rank,
    *,
    may_resize: bool = True,
) -> list[MetadataRecord]:
    """Start a reassignment to ``target``. It replaces the partition's current one, if any."""
    place = find(image, name, index)
    mode_changes.check_no_change(place.topic)
    rules = rules_of(place.topic)
    _check_target(image, place, target, may_resize=may_resize)
    return _change(place, _on_its_way(place.partition, target), BrokerAvailability.of(image, rank), rules)


def _on_its_way(partition: PartitionImage, target: Sequence[int]) -> PartitionImage:
    before = _original(partition)
    removing = tuple(replica for replica in leavers(partition, before) if replica not in target)
    replicas = (*target, *removing)
    adding = tuple(replica for replica in replicas if replica not in before)
    return msgspec.structs.replace(
        partition, replicas=replicas, adding=adding, removing=removing, ending=False
    )


def cancel(
    image: ClusterImage, name: str, index: int, rules_of: RulesOf, rank: Rank = same_rank
) -> list[MetadataRecord]:
    """Return to the replicas from before the reassignment."""
    place = find(image, name, index)
    if not place.partition.is_moving:
        raise TidelogError("no reassignment is in progress", ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    before = _on_its_way(place.partition, _original(place.partition))
    return _change(place, before, BrokerAvailability.of(image, rank), rules_of(place.topic))


def ongoing(image: ClusterImage) -> Iterator[PartitionPlace]:
    return (place for place in every_place(image) if place.partition.is_moving)


def _check_target(
    image: ClusterImage, place: PartitionPlace, target: Sequence[int], *, may_resize: bool
) -> None:
    if not target:
        raise _refuse("a partition needs at least one replica")
    if len(set(target)) != len(target):
        raise _refuse(f"a broker is named twice: {list(target)}")
    strangers = [broker for broker in target if broker not in image.brokers]
    if strangers:
        raise _refuse(f"brokers that do not exist: {strangers}")
    if not may_resize and len(target) != len(place.partition.target):
        raise TidelogError(
            f"the replication factor would become {len(target)}", ErrorCode.INVALID_REPLICATION_FACTOR
        )
    least = LEAST_REPLICAS[place.partition.mode]
    if len(target) < least:
        raise TidelogError(
            f"mode {place.partition.mode} needs {least} replicas, not {len(target)}",
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )
    explicit = place.topic.configs.get("min.insync.replicas")
    if explicit is not None and int(explicit) > len(target):
        # Otherwise every write with acks=all would be refused.
        raise TidelogError(
            f"min.insync.replicas of the topic is {explicit}, more than {len(target)}; lower it first",
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )


def _change(
    place: PartitionPlace, wanted: PartitionImage, available: BrokerAvailability, rules: Rules
) -> list[MetadataRecord]:
    """Give the partition other replicas. Replicas that an earlier reassignment added and that are not wanted
    any more are removed at once, unless they may be needed.
    """
    present = place.partition
    _check_dropped(present, wanted, rules)

    def kept(replicas: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(replica for replica in replicas if replica in wanted.replicas)

    new = msgspec.structs.replace(
        wanted,
        in_sync=kept(present.in_sync),
        eligible=kept(present.eligible),
        offline=kept(present.offline),
    )
    if not set(new.replicas) <= set(present.replicas):
        # A replica that returns may not know yet that it was removed; it drops its log when it learns of
        # that.
        new = in_a_new_epoch(new)
    assigned = promised(present, rules, next_state(new, available, rules), rules)
    return [] if assigned == present else [record_of(place.topic.topic_id, place.number, assigned)]


def _check_dropped(present: PartitionImage, wanted: PartitionImage, rules: Rules) -> None:
    """Replicas that are removed at once may be the only ones that hold what was committed, or so many that
    every write would be refused.
    """
    dropped = [replica for replica in present.replicas if replica not in wanted.replicas]
    if not dropped:
        return
    members = len(present.in_sync)
    left = len(set(present.in_sync).difference(dropped))
    if members and left < max(1, min(minimum(wanted, rules), members)):
        raise _refuse("too few of the remaining replicas are in sync")
    if not members and not set(present.eligible).difference(dropped):
        # Only the last leader can lead then, and it copies the newest log that it finds. Each of the removed
        # replicas may be that leader or have that log.
        raise _refuse(
            f"brokers {dropped} may have the newest records, and none of the remaining replicas is known to "
            "be complete; try again when one of them is in sync"
        )


def _original(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas before the reassignment began; a new order of those that stay is kept."""
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def _refuse(message: str) -> TidelogError:
    return TidelogError(message, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
