"""Moving replicas to other brokers: begun here, finished by the elections when the new ones have caught up.

While it is under way a partition has the old replicas and the new ones; ``adding`` and ``removing`` say which
is which. The old ones go only when every new one is in sync: at no time are there fewer copies than before.
"""

from collections.abc import Iterator, Sequence

import msgspec

from tidelog.config.modes import LEAST_REPLICAS
from tidelog.controller.availability import BrokerAvailability, Rank, same_rank
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.leadership import PartitionPlace, every_place, find
from tidelog.controller.records import MetadataRecord
from tidelog.controller.successions import in_a_new_epoch, members_hold_all, mode_changes, next_state
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
    """Replace what is under way for this partition, if anything, by a way to ``target``."""
    place = find(image, name, index)
    mode_changes.check_no_change(place.topic)
    rules = rules_of(place.topic)
    _check_target(image, place, target, may_resize=may_resize)
    return _change(place, _on_its_way(place.partition, target), BrokerAvailability.of(image, rank), rules)


def _on_its_way(partition: PartitionImage, target: Sequence[int]) -> PartitionImage:
    before = _original(partition)
    # Where a member may lack what is acknowledged, nobody leaves before the target has it: an earlier move's
    # newcomer may be the leader by now, or the second copy.
    leavers = before if members_hold_all(partition) else partition.replicas
    removing = tuple(replica for replica in leavers if replica not in target)
    replicas = (*target, *removing)
    adding = tuple(replica for replica in replicas if replica not in before)
    return msgspec.structs.replace(
        partition, replicas=replicas, adding=adding, removing=removing, ending=False
    )


def cancel(
    image: ClusterImage, name: str, index: int, rules_of: RulesOf, rank: Rank = same_rank
) -> list[MetadataRecord]:
    """Back to the replicas from before."""
    place = find(image, name, index)
    if not place.partition.is_moving:
        raise TidelogError("no reassignment is under way", ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
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
        # Every acks=all write would be refused for ever.
        raise TidelogError(
            f"min.insync.replicas of the topic is {explicit}, more than {len(target)}; lower it first",
            ErrorCode.INVALID_REPLICATION_FACTOR,
        )


def _change(
    place: PartitionPlace, wanted: PartitionImage, available: BrokerAvailability, rules: Rules
) -> list[MetadataRecord]:
    """Give the partition other replicas; those that an earlier move brought and nobody wants any more are out
    at once.
    """
    present = place.partition

    def kept(replicas: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(replica for replica in replicas if replica in wanted.replicas)

    in_sync = kept(present.in_sync)
    # Those that go may be all who hold what was committed, or enough of them to stop every write.
    if present.in_sync and len(in_sync) < max(1, min(minimum(wanted, rules), len(present.in_sync))):
        raise _refuse("too few of the replicas that would be left are in sync")
    new = msgspec.structs.replace(
        wanted, in_sync=in_sync, eligible=kept(present.eligible), offline=kept(present.offline)
    )
    if not set(new.replicas) <= set(present.replicas):
        # One that was here before may not have heard that it was gone: it drops its log when it does.
        new = in_a_new_epoch(new)
    settled = promised(present, rules, next_state(new, available, rules), rules)
    return [] if settled == present else [record_of(place.topic.topic_id, place.number, settled)]


def _original(partition: PartitionImage) -> tuple[int, ...]:
    """The replicas before what is under way began; a new order of those that stay is kept."""
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def _refuse(message: str) -> TidelogError:
    return TidelogError(message, ErrorCode.INVALID_REPLICA_ASSIGNMENT)
