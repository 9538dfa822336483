"""Who leads a partition and who is in sync, as the controller decides it: an image in, records out.

The order of candidates: members of the in-sync set; then former members that left while the set was below the
minimum (nothing was committed without them, so they hold everything that was); then, when nobody of either is
known to be whole, the last leader once it is back; then, only where the topic allows it, anybody.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.records import (
    BrokerFencingChanged,
    BrokerRegistered,
    MetadataRecord,
    PartitionChanged,
)
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER

Alive = Callable[[int], bool]
Rank = Callable[[int], int]
"""Who is preferred as a leader: smaller is better, equals go by their place among the replicas."""


def _all_alike(broker_id: int) -> int:
    return 0


class Rules(NamedTuple):
    """The topic's settings that decide here."""

    min_in_sync: int
    unclean_allowed: bool
    synced: bool = (
        False  # An ok means "on disk": a machine that lost power has forgotten nothing that counts.
    )


RulesOf = Callable[[TopicImage], Rules]


def next_state(
    partition: PartitionImage, alive: Alive, rules: Rules, rank: Rank = _all_alike
) -> PartitionImage:
    """The partition after brokers came or went. Equal to the present one where nothing has to change."""

    def serves(replica: int) -> bool:
        return alive(replica) and replica not in partition.offline

    members = tuple(replica for replica in partition.in_sync if serves(replica))
    if members:
        return finish_reassignment(_led_by_member(partition, members, rules, rank), rank)
    return _led_by_other(partition, serves, rules)


def finish_reassignment(partition: PartitionImage, rank: Rank = _all_alike) -> PartitionImage:
    """When every replica of the target is in sync, the others leave; the leader hands over if it is one of
    them.
    """
    target = partition.target
    if not (partition.adding or partition.removing) or not set(target) <= set(partition.in_sync):
        return partition
    in_sync = tuple(member for member in partition.in_sync if member in target)
    leader = partition.leader if partition.leader in target else min(in_sync, key=rank)
    done = _changed(partition, leader, in_sync, (), unclean=False)
    return msgspec.structs.replace(done, replicas=target, adding=(), removing=())


def _led_by_member(
    partition: PartitionImage, members: tuple[int, ...], rules: Rules, rank: Rank
) -> PartitionImage:
    leader = partition.leader
    if leader not in members:
        leader = min((replica for replica in partition.replicas if replica in members), key=rank)
    gone = tuple(replica for replica in partition.in_sync if replica not in members)
    eligible: tuple[int, ...] = ()
    if len(members) < rules.min_in_sync:
        # From here on nothing is committed, so who leaves now keeps everything that was.
        eligible = _union(partition.eligible, gone, without=members)
    return _changed(partition, leader, members, eligible, unclean=False)


def _led_by_other(partition: PartitionImage, alive: Alive, rules: Rules) -> PartitionImage:
    """Nobody of the in-sync set lives."""
    for replica in partition.replicas:
        if replica in partition.eligible and alive(replica):
            rest = _union(partition.eligible, partition.in_sync, without=(replica,))
            return _changed(partition, replica, (replica,), rest, unclean=False)
    if not partition.in_sync and not partition.eligible and alive(partition.last_leader):
        return _changed(partition, partition.last_leader, (partition.last_leader,), (), unclean=True)
    if rules.unclean_allowed:
        for replica in partition.replicas:
            if alive(replica):
                return _changed(partition, replica, (replica,), (), unclean=True)
    return _changed(partition, NO_BROKER, partition.in_sync, partition.eligible, unclean=False)


def _changed(
    partition: PartitionImage,
    leader: int,
    in_sync: tuple[int, ...],
    eligible: tuple[int, ...],
    *,
    unclean: bool,
) -> PartitionImage:
    same_leader = leader == partition.leader
    return msgspec.structs.replace(
        partition,
        leader=leader,
        # A new epoch also when the leadership ends: what the old leader still says must be refused.
        leader_epoch=partition.leader_epoch if same_leader else partition.leader_epoch + 1,
        in_sync=in_sync,
        eligible=eligible,
        last_leader=partition.last_leader if leader == NO_BROKER else leader,
        unclean_epoch=partition.leader_epoch + 1 if unclean and not same_leader else partition.unclean_epoch,
    )


def _union(first: tuple[int, ...], second: tuple[int, ...], *, without: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in dict.fromkeys((*first, *second)) if replica not in without)


def record_of(topic_id: UUID, index: int, new: PartitionImage) -> PartitionChanged:
    return PartitionChanged(
        topic_id,
        index,
        new.leader,
        new.leader_epoch,
        list(new.in_sync),
        list(new.eligible),
        new.last_leader,
        unclean=new.unclean_epoch == new.leader_epoch,
        replicas=list(new.replicas),
        offline=list(new.offline),
        adding=list(new.adding),
        removing=list(new.removing),
    )


def settle_all(image: ClusterImage, rules_of: RulesOf, rank: Rank = _all_alike) -> Iterator[PartitionChanged]:
    """Every partition that has to change, given who is fenced in this image."""

    def alive(replica: int) -> bool:
        broker = image.brokers.get(replica)
        return broker is not None and not broker.fenced

    for topic in image.topics.values():
        rules = rules_of(topic)
        for index, partition in enumerate(topic.partitions):
            new = next_state(partition, alive, rules, rank)
            if new != partition:
                yield record_of(topic.topic_id, index, new)


def fence(
    image: ClusterImage, broker_id: int, rules_of: RulesOf, rank: Rank = _all_alike
) -> list[MetadataRecord]:
    """A broker is taken for dead: it leads nothing and is a member of nothing from now on."""
    change = BrokerFencingChanged(broker_id, True)
    return [change, *settle_all(image.apply([change]), rules_of, rank)]


def unfence(image: ClusterImage, broker_id: int, rules_of: RulesOf) -> list[MetadataRecord]:
    """A broker is back and knows the present metadata: partitions that waited for it can be led again."""
    change = BrokerFencingChanged(broker_id, False)
    return [change, *settle_all(image.apply([change]), rules_of)]


def register(
    image: ClusterImage, registration: BrokerRegistered, rules_of: RulesOf, *, forgot: bool, empty: bool
) -> list[MetadataRecord]:
    """A broker process has started. It begins fenced; what it led before, it leads no more.

    ``forgot``: it stopped without syncing and its machine lost power, so it may lack records it once held.
    ``empty``: its disk is a new one. Either way it no longer counts as holding what was committed. The same
    goes for single logs that had failed: the disk may be whole again, what was on it is not to be relied on.
    """
    records: list[MetadataRecord] = [registration]
    draft = image.apply(records)
    forgotten = list(_forget(draft, registration.broker_id, rules_of, forgot=forgot, empty=empty))
    records += forgotten
    draft = draft.apply(forgotten)
    return records + list(settle_all(draft, rules_of))


def _forget(
    image: ClusterImage, broker_id: int, rules_of: RulesOf, *, forgot: bool, empty: bool
) -> Iterator[PartitionChanged]:
    for topic in image.topics.values():
        lost = empty or (forgot and not rules_of(topic).synced)
        for index, partition in enumerate(topic.partitions):
            failed = broker_id in partition.offline
            if broker_id not in partition.replicas or not (lost or failed):
                continue
            last_leader = partition.last_leader
            new = msgspec.structs.replace(
                partition,
                leader=NO_BROKER if partition.leader == broker_id else partition.leader,
                leader_epoch=partition.leader_epoch + (partition.leader == broker_id),
                in_sync=tuple(replica for replica in partition.in_sync if replica != broker_id),
                eligible=tuple(replica for replica in partition.eligible if replica != broker_id),
                last_leader=NO_BROKER if empty and last_leader == broker_id else last_leader,
                offline=tuple(replica for replica in partition.offline if replica != broker_id),
            )
            if new != partition:
                yield record_of(topic.topic_id, index, new)


def take_offline(
    image: ClusterImage,
    broker_id: int,
    broker_epoch: int,
    partitions: Iterable[tuple[UUID, int]],
    rules_of: RulesOf,
) -> list[MetadataRecord]:
    """Logs of a broker have failed: for these partitions it is as if it were dead."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.broker_epoch != broker_epoch:
        raise TidelogError("another run of the broker is registered", ErrorCode.STALE_BROKER_EPOCH)

    def alive(replica: int) -> bool:
        other = image.brokers.get(replica)
        return other is not None and not other.fenced

    records: list[MetadataRecord] = []
    for topic_id, index in partitions:
        topic = image.topic_by_id(topic_id)
        if topic is None or index >= len(topic.partitions):
            continue
        partition = topic.partitions[index]
        if broker_id in partition.replicas and broker_id not in partition.offline:
            failed = msgspec.structs.replace(partition, offline=(*partition.offline, broker_id))
            records.append(record_of(topic_id, index, next_state(failed, alive, rules_of(topic))))
    return records


class InSyncWish(NamedTuple):
    """A leader's proposal."""

    broker_id: int
    broker_epoch: int
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    members: tuple[int, ...]


def change_in_sync(image: ClusterImage, wish: InSyncWish, rules_of: RulesOf) -> list[MetadataRecord]:
    """Take a proposal, or refuse it with the code that tells the leader what to do."""
    topic = image.topic_by_id(wish.topic_id)
    if topic is None or wish.partition >= len(topic.partitions):
        raise TidelogError("no such partition", ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions[wish.partition]
    broker = image.brokers.get(wish.broker_id)
    if broker is None or broker.broker_epoch != wish.broker_epoch or broker.fenced:
        raise TidelogError("the broker is not registered, or fenced", ErrorCode.STALE_BROKER_EPOCH)
    if partition.leader != wish.broker_id or partition.leader_epoch != wish.leader_epoch:
        raise TidelogError("another leader or epoch by now", ErrorCode.FENCED_LEADER_EPOCH)
    if partition.partition_epoch != wish.partition_epoch:
        raise TidelogError("the partition has changed meanwhile", ErrorCode.INVALID_UPDATE_VERSION)
    if wish.broker_id not in wish.members or not set(wish.members) <= set(partition.replicas):
        raise TidelogError("members must be replicas, the leader among them", ErrorCode.INVALID_REQUEST)
    for member in wish.members:
        other = image.brokers.get(member)
        if other is None or other.fenced or member in partition.offline:
            raise TidelogError(f"broker {member} is fenced", ErrorCode.INELIGIBLE_REPLICA)
    gone = tuple(replica for replica in partition.in_sync if replica not in wish.members)
    eligible: tuple[int, ...] = ()
    if len(wish.members) < rules_of(topic).min_in_sync:
        eligible = _union(partition.eligible, gone, without=wish.members)
    new = msgspec.structs.replace(partition, in_sync=wish.members, eligible=eligible)
    return [record_of(wish.topic_id, wish.partition, finish_reassignment(new))]
