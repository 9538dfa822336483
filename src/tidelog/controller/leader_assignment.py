"""What the controller decides about partitions when brokers come and go, and about the in-sync sets that
leaders propose: an image in, records out. Who leads in which mode is in
:mod:`tidelog.controller.successions`.
"""

import logging
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidelog.controller.availability import BrokerAvailability, Rank, same_rank
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.records import MetadataRecord, PartitionChanged
from tidelog.controller.successions import (
    check_leader,
    lost,
    members_hold_all,
    mode_changes,
    next_state,
    told,
    unforgetful,
    with_members,
)
from tidelog.controller.successions.promising import promised
from tidelog.controller.successions.steps import LeaderReport, Rules, RulesOf, record_of, union
from tidelog.errors import ErrorCode, TidelogError
from tidelog.types import NO_BROKER

logger = logging.getLogger(__name__)


def assign_leaders(
    image: ClusterImage, rules_of: RulesOf, rank: Rank = same_rank
) -> Iterator[PartitionChanged]:
    """Every partition that has to change, given how the brokers of this image stand."""
    available = BrokerAvailability.of(image, rank)
    for topic in image.topics.values():
        yield from assign_topic_leaders(topic, available, rules_of(topic))


def assign_topic_leaders(
    topic: TopicImage, available: BrokerAvailability, rules: Rules
) -> Iterator[PartitionChanged]:
    for index, partition in enumerate(topic.partitions):
        new = next_state(partition, available, rules)
        if new is not partition and new != partition:
            if new.unclean_epoch > partition.unclean_epoch:
                _warn_unclean(topic, index, partition, new)
            yield record_of(topic.topic_id, index, new)


def _warn_unclean(topic: TopicImage, index: int, old: PartitionImage, new: PartitionImage) -> None:
    """How much is given up is known when those who held it are back, and tell what they drop."""
    holders = ", ".join(map(str, union(old.in_sync, old.eligible, without=()))) or "nobody"
    logger.warning(
        "%s-%s: broker %s leads epoch %s though it may lack acknowledged records; known to have them all: %s",
        topic.name, index, new.leader, new.leader_epoch, holders,
    )  # fmt: skip


def without_memory(
    partition: PartitionImage, broker_id: int, *, empty: bool, tail: bool = False
) -> PartitionImage:
    """A replica may lack what it once held: it is complete no more, though its log can be used again.
    ``tail``: only what it had not synced.
    """

    def others(replicas: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(replica for replica in replicas if replica != broker_id)

    led = partition.leader == broker_id
    last = partition.last_leader
    if empty or (not tail and members_hold_all(partition)):
        # What is gone was safe on its disk: others, which left long ago, may have kept more of it.
        last = NO_BROKER if last == broker_id else last
    elif members_hold_all(partition) and {*partition.in_sync, *partition.eligible} == {broker_id}:
        # Nobody is whole any more. It was so until now, and has kept more than those who forgot before it.
        # Where copies are counted, the last leader alone may have held everything: no backup takes its place
        # here, and where a replaced disk has cost it, an operator still has to know.
        last = broker_id
    return msgspec.structs.replace(
        lost(partition, broker_id, tail=tail),
        leader=NO_BROKER if led else partition.leader,
        in_sync=others(partition.in_sync),
        eligible=others(partition.eligible),
        last_leader=last,
        offline=others(partition.offline),
    )


class InSyncProposal(NamedTuple):
    """A leader's proposal."""

    broker_id: int
    broker_epoch: int
    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    members: tuple[int, ...]
    # Which run of each member the leader means, in their order; -1 where it does not say, empty for none.
    # Where the leader was voted in: the loss for which it has readmitted the member.
    member_epochs: tuple[int, ...] = ()
    # The leader was voted in, and tells so: the members are those who vote.
    elected: bool = False
    # The leader takes nothing more: the topic is to be replicated in another way, and these hold all of it.
    sealed: bool = False


class ProposalResult(NamedTuple):
    """What becomes of a proposal. The answer waits until the records are committed, a refusal's as well."""

    records: list[MetadataRecord]
    error: ErrorCode = ErrorCode.NONE


def change_in_sync(
    image: ClusterImage, wish: InSyncProposal, rules_of: RulesOf, rank: Rank = same_rank
) -> ProposalResult:
    """Take a proposal, or refuse it with the code that tells the leader what to do.

    A refusal that makes the leader go on without a new member is a change of the partition: an earlier copy
    of the same proposal may still be under way, and must find another partition epoch when it arrives. A
    refusal that leaves no record (a ``TidelogError``) ends no proposal, or would be given to every copy.
    """
    try:
        return ProposalResult(_take(image, wish, rules_of, rank))
    except _Ineligible as refusal:
        logger.info("partition %s of %s: %s", wish.partition, wish.topic_id, refusal.message)
        return ProposalResult(_refused(image, wish), refusal.code)


class _Ineligible(TidelogError):
    """Somebody in the proposal cannot be a member now, though it may be one later."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, ErrorCode.INELIGIBLE_REPLICA)


def _refused(image: ClusterImage, wish: InSyncProposal) -> list[MetadataRecord]:
    """The partition as it is, with its next epoch; nothing where the leader waits for nobody new: one that
    is to lead commits nothing yet, and one that has sealed its log nothing more.
    """
    topic = image.topic_by_id(wish.topic_id)
    if topic is None or wish.sealed:
        return []
    partition = topic.partitions[wish.partition]
    if not set(wish.members).difference(partition.in_sync, (wish.broker_id,)):
        return []
    return [record_of(wish.topic_id, wish.partition, partition)]


def _take(image: ClusterImage, wish: InSyncProposal, rules_of: RulesOf, rank: Rank) -> list[MetadataRecord]:
    topic = image.topic_by_id(wish.topic_id)
    if topic is None or not 0 <= wish.partition < len(topic.partitions):
        raise TidelogError("no such partition", ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions[wish.partition]
    if wish.elected:
        return _told(image, topic, partition, wish, rules_of(topic), rank)
    if wish.sealed:
        rules = rules_of(topic)
        sealed = promised(partition, rules, _take_over(image, partition, wish), rules)
        new = next_state(sealed, BrokerAvailability.of(image, rank), rules)
        return [record_of(wish.topic_id, wish.partition, new)]
    _check_proposer(image, partition, wish)
    if wish.broker_id not in wish.members or len(set(wish.members)) < len(wish.members):
        raise TidelogError("members are named once, the leader among them", ErrorCode.INVALID_REQUEST)
    if not set(wish.members) <= set(partition.replicas):
        raise TidelogError("members must be replicas", ErrorCode.INVALID_REQUEST)
    _check_members(image, partition, wish)
    rules = rules_of(topic)
    new = with_members(partition, wish.members, rules)
    # A new member may be the one for which a drained leader, or a move, has been waiting.
    return [
        record_of(wish.topic_id, wish.partition, next_state(new, BrokerAvailability.of(image, rank), rules))
    ]


def _told(
    image: ClusterImage,
    topic: TopicImage,
    partition: PartitionImage,
    wish: InSyncProposal,
    rules: Rules,
    rank: Rank,
) -> list[MetadataRecord]:
    """The replicas have voted. Who lost its data counts again only when its leader has readmitted it for this
    very loss.
    """
    _check_sender(image, wish)
    if wish.broker_id not in partition.replicas:
        raise TidelogError("nobody votes for that", ErrorCode.INVALID_REQUEST)
    counted = {
        member
        for member, healed in zip_longest(wish.members, wish.member_epochs, fillvalue=-1)
        if member in image.brokers and _remembers(partition, wish, member, healed)
    }
    voters = wish.members
    if NO_BROKER in wish.members or wish.partition_epoch < partition.partition_epoch:
        # The set may be taken back, or is older than what we know: nobody loses its vote by that, and no
        # reassignment ends by it. The leader says it again when it has heard of the present state.
        counted |= partition.remember
        voters = ()
    report = LeaderReport(wish.broker_id, wish.leader_epoch, voters, tuple(sorted(counted)))
    new = told(partition, report, BrokerAvailability.of(image, rank), rules)
    return [] if new == partition else [record_of(topic.topic_id, wish.partition, new)]


def _remembers(partition: PartitionImage, wish: InSyncProposal, member: int, healed: int) -> bool:
    loss = partition.loss_of(member)
    if loss is None:
        return member in partition.remember
    # Who was elected holds all that was ever committed; but it may have lost it since it said so.
    return loss.number == healed or (member == wish.broker_id and loss.number <= wish.partition_epoch)


def _take_over(image: ClusterImage, partition: PartitionImage, wish: InSyncProposal) -> PartitionImage:
    """The leader has ended its time, and says who holds all of its log: from here on the controllers keep the
    in-sync set and name the leader.
    """
    _check_proposer(image, partition, wish)
    if wish.leader_epoch < partition.mode_epoch or not mode_changes.ends_in_seal(partition):
        # Of an earlier time, which ended the same way. What came since may be missing there.
        raise TidelogError("sealed before it was last unsealed", ErrorCode.FENCED_LEADER_EPOCH)
    holders = [member for member in wish.members if member in unforgetful(partition)]
    members = tuple(member for member in holders if not why_ineligible(image, partition, wish, member))
    if wish.broker_id not in members:
        raise _Ineligible("the leader itself cannot be a member")
    return mode_changes.sealed(partition, wish.leader_epoch, wish.broker_id, members)


def _check_sender(image: ClusterImage, wish: InSyncProposal) -> None:
    broker = image.brokers.get(wish.broker_id)
    if broker is None or broker.broker_epoch != wish.broker_epoch or broker.fenced:
        raise TidelogError("the broker is not registered, or fenced", ErrorCode.STALE_BROKER_EPOCH)


def _check_proposer(image: ClusterImage, partition: PartitionImage, wish: InSyncProposal) -> None:
    _check_sender(image, wish)
    check_leader(partition, wish.broker_id, wish.leader_epoch, wish.partition_epoch)


def _check_members(image: ClusterImage, partition: PartitionImage, wish: InSyncProposal) -> None:
    """A leader whose own log is offline stays a member as long as there is no other, and only its word lets
    one in that holds everything: then that one takes over.
    """
    is_member = wish.broker_id in partition.in_sync
    for member in wish.members:
        if is_member and member == wish.broker_id:
            continue
        problem = why_ineligible(image, partition, wish, member)
        if problem:
            raise _Ineligible(f"broker {member} {problem}")


def why_ineligible(image: ClusterImage, partition: PartitionImage, wish: InSyncProposal, member: int) -> str:
    """What keeps a broker from being a member; empty when nothing does."""
    broker = image.brokers.get(member)
    if broker is None or broker.fenced or member in partition.offline:
        return "is fenced"
    epochs = dict(zip(wish.members, wish.member_epochs, strict=False))
    if epochs.get(member, -1) not in (-1, broker.broker_epoch):
        # What an earlier run of it had fetched, this one may have lost.
        return "has restarted since"
    if broker.leaving and member not in partition.in_sync:
        return "is about to stop"
    return ""
