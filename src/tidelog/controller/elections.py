"""Who leads a partition and who is in sync, as the controller decides it: an image in, records out.

The order of candidates: members of the in-sync set; then former members that left while the set was below the
minimum (nothing was committed without them, so they hold everything that was); then, when nobody of either is
known to be whole, the last leader once it is back; then, only where the topic allows it, anybody. Among
equals a broker that wants to stop or is drained comes last, and gives its leadership up as soon as somebody
else can have it.
"""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.records import MetadataRecord, PartitionChanged
from tidelog.controller.standing import Rank, Standing, all_alike
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER

logger = logging.getLogger(__name__)


class Rules(NamedTuple):
    """The topic's settings that decide here."""

    min_in_sync: int
    unclean_allowed: bool
    # An ok means "on disk": a machine that lost power has forgotten nothing that counts.
    synced: bool = False


RulesOf = Callable[[TopicImage], Rules]


def minimum(partition: PartitionImage, rules: Rules) -> int:
    """How many must be in sync before anything is committed.

    Never more than the leader itself demands, or members that left would be taken for complete while it went
    on committing without them: so what is on its way out does not count.
    """
    return min(rules.min_in_sync, len(partition.target))


def next_state(partition: PartitionImage, standing: Standing, rules: Rules) -> PartitionImage:
    """The partition after brokers came or went. Equal to the present one where nothing has to change."""
    if (
        partition.leader in standing.willing
        and partition.leader in partition.in_sync
        and not partition.eligible
        and not partition.offline
        and not partition.is_moving
        and standing.serving.issuperset(partition.in_sync)
    ):
        return partition
    members = tuple(replica for replica in partition.in_sync if serves(partition, replica, standing))
    if members:
        settled = _led_by_member(partition, members, standing, rules)
    else:
        settled = _led_by_other(partition, standing, rules)
    return _finish_move(settled, standing)


def serves(partition: PartitionImage, replica: int, standing: Standing) -> bool:
    return replica in standing.serving and replica not in partition.offline


def _led_by_member(
    partition: PartitionImage, members: tuple[int, ...], standing: Standing, rules: Rules
) -> PartitionImage:
    leader = partition.leader
    if leader not in members or leader not in standing.willing:
        best = standing.best(replica for replica in partition.replicas if replica in members)
        # Who would rather not lead goes on when the others would rather not either.
        if leader not in members or best in standing.willing:
            leader = best
    gone = tuple(replica for replica in partition.in_sync if replica not in members)
    eligible: tuple[int, ...] = ()
    if len(members) < minimum(partition, rules):
        # From here on nothing is committed, so who leaves now keeps everything that was.
        eligible = _union(partition.eligible, gone, without=members)
    return led_by(partition, leader, members, eligible)


def _led_by_other(partition: PartitionImage, standing: Standing, rules: Rules) -> PartitionImage:
    """Nobody of the in-sync set serves."""
    present = [replica for replica in partition.replicas if serves(partition, replica, standing)]
    complete = [replica for replica in present if replica in partition.eligible]
    if complete:
        leader = standing.best(complete)
        rest: tuple[int, ...] = ()
        if minimum(partition, rules) > 1:
            rest = _union(partition.eligible, partition.in_sync, without=(leader,))
        return led_by(partition, leader, (leader,), rest)
    if not partition.in_sync and not partition.eligible and partition.last_leader in present:
        return led_by(partition, partition.last_leader, (partition.last_leader,), (), unclean=True)
    if rules.unclean_allowed and present:
        leader = standing.best(present)
        return led_by(partition, leader, (leader,), (), unclean=True)
    return led_by(partition, NO_BROKER, partition.in_sync, partition.eligible)


def led_by(
    partition: PartitionImage,
    leader: int,
    in_sync: tuple[int, ...],
    eligible: tuple[int, ...],
    *,
    unclean: bool = False,
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


def _finish_move(partition: PartitionImage, standing: Standing) -> PartitionImage:
    """When every replica of the target is in sync, the others leave; a leader that is one of them hands
    over.
    """
    target = partition.target
    if not partition.is_moving or partition.leader == NO_BROKER:
        return partition
    if not set(target) <= set(partition.in_sync):
        return partition
    in_sync = tuple(member for member in partition.in_sync if member in target)
    leader = partition.leader if partition.leader in target else standing.best(target)
    done = led_by(partition, leader, in_sync, ())
    offline = tuple(replica for replica in partition.offline if replica in target)
    return msgspec.structs.replace(done, replicas=target, adding=(), removing=(), offline=offline)


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


def settle_all(image: ClusterImage, rules_of: RulesOf, rank: Rank = all_alike) -> Iterator[PartitionChanged]:
    """Every partition that has to change, given how the brokers of this image stand."""
    standing = Standing.of(image, rank)
    for topic in image.topics.values():
        yield from settle_topic(topic, standing, rules_of(topic))


def settle_topic(topic: TopicImage, standing: Standing, rules: Rules) -> Iterator[PartitionChanged]:
    for index, partition in enumerate(topic.partitions):
        new = next_state(partition, standing, rules)
        if new is not partition and new != partition:
            if new.unclean_epoch > partition.unclean_epoch:
                _warn_unclean(topic, index, partition, new)
            yield record_of(topic.topic_id, index, new)


def _warn_unclean(topic: TopicImage, index: int, old: PartitionImage, new: PartitionImage) -> None:
    """How much is given up is known when those who held it are back, and tell what they drop."""
    holders = ", ".join(map(str, _union(old.in_sync, old.eligible, without=()))) or "nobody"
    logger.warning(
        "%s-%s: broker %s leads epoch %s though it may lack acknowledged records; known to have them all: %s",
        topic.name, index, new.leader, new.leader_epoch, holders,
    )  # fmt: skip


def without_memory(partition: PartitionImage, broker_id: int, *, empty: bool) -> PartitionImage:
    """A replica may lack what it once held: it is complete no more, though its log can be used again."""

    def others(replicas: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(replica for replica in replicas if replica != broker_id)

    led = partition.leader == broker_id
    last = partition.last_leader
    if empty:
        last = NO_BROKER if last == broker_id else last
    elif {*partition.in_sync, *partition.eligible} == {broker_id}:
        # Nobody is whole any more. It was so until now, and has kept more than those who forgot before it.
        last = broker_id
    return msgspec.structs.replace(
        partition,
        leader=NO_BROKER if led else partition.leader,
        leader_epoch=partition.leader_epoch + led,
        in_sync=others(partition.in_sync),
        eligible=others(partition.eligible),
        last_leader=last,
        offline=others(partition.offline),
    )


class InSyncWish(NamedTuple):
    """A leader's proposal."""

    broker_id: int
    broker_epoch: int
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    members: tuple[int, ...]
    # Which run of each member the leader means, in their order; -1 where it does not say, empty for none.
    member_epochs: tuple[int, ...] = ()


def change_in_sync(
    image: ClusterImage, wish: InSyncWish, rules_of: RulesOf, rank: Rank = all_alike
) -> list[MetadataRecord]:
    """Take a proposal, or refuse it with the code that tells the leader what to do."""
    topic = image.topic_by_id(wish.topic_id)
    if topic is None or not 0 <= wish.partition < len(topic.partitions):
        raise TidelogError("no such partition", ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions[wish.partition]
    _check_proposer(image, partition, wish)
    if wish.broker_id not in wish.members or len(set(wish.members)) < len(wish.members):
        raise TidelogError("members are named once, the leader among them", ErrorCode.INVALID_REQUEST)
    if not set(wish.members) <= set(partition.replicas):
        raise TidelogError("members must be replicas", ErrorCode.INVALID_REQUEST)
    _check_members(image, partition, wish)
    rules = rules_of(topic)
    gone = tuple(replica for replica in partition.in_sync if replica not in wish.members)
    eligible: tuple[int, ...] = ()
    if len(wish.members) < minimum(partition, rules):
        eligible = _union(partition.eligible, gone, without=wish.members)
    new = msgspec.structs.replace(partition, in_sync=wish.members, eligible=eligible)
    # A new member may be the one for which a drained leader, or a move, has been waiting.
    return [record_of(wish.topic_id, wish.partition, next_state(new, Standing.of(image, rank), rules))]


def _check_proposer(image: ClusterImage, partition: PartitionImage, wish: InSyncWish) -> None:
    broker = image.brokers.get(wish.broker_id)
    if broker is None or broker.broker_epoch != wish.broker_epoch or broker.fenced:
        raise TidelogError("the broker is not registered, or fenced", ErrorCode.STALE_BROKER_EPOCH)
    if partition.leader != wish.broker_id or partition.leader_epoch != wish.leader_epoch:
        raise TidelogError("another leader or epoch by now", ErrorCode.FENCED_LEADER_EPOCH)
    if partition.partition_epoch != wish.partition_epoch:
        raise TidelogError("the partition has changed meanwhile", ErrorCode.INVALID_UPDATE_VERSION)


def _check_members(image: ClusterImage, partition: PartitionImage, wish: InSyncWish) -> None:
    epochs = dict(zip(wish.members, wish.member_epochs, strict=False))
    for member in wish.members:
        broker = image.brokers.get(member)
        if broker is None or broker.fenced or member in partition.offline:
            raise TidelogError(f"broker {member} is fenced", ErrorCode.INELIGIBLE_REPLICA)
        if epochs.get(member, -1) not in (-1, broker.broker_epoch):
            # What an earlier run of it had fetched, this one may have lost.
            raise TidelogError(f"broker {member} has restarted since", ErrorCode.INELIGIBLE_REPLICA)
        if broker.leaving and member not in partition.in_sync:
            raise TidelogError(f"broker {member} is about to stop", ErrorCode.INELIGIBLE_REPLICA)
