"""What the controller decides about partitions when brokers start and fail, and about the in-sync sets that
leaders propose: an image in, records out. :mod:`tidelog.controller.successions` has the rules of each mode.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import NamedTuple
from uuid import UUID

import msgspec

from tidelog.controller.availability import BrokerAvailability, Rank, same_rank
from tidelog.controller.image import ClusterImage, PartitionImage, TopicImage
from tidelog.controller.records import MetadataRecord, PartitionChanged
from tidelog.controller.successions import (
    check_leader,
    last_leader_without,
    lost,
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


def _every(partition: PartitionImage) -> bool:
    return True


def assign_leaders(
    image: ClusterImage,
    rules_of: RulesOf,
    rank: Rank = same_rank,
    which: Callable[[PartitionImage], bool] = _every,
) -> Iterator[PartitionChanged]:
    """Every partition that has to change, given which brokers of this image are available. ``which`` selects
    the partitions to examine.
    """
    available = BrokerAvailability.of(image, rank)
    for topic in image.topics.values():
        yield from assign_topic_leaders(topic, available, rules_of(topic), which=which)


def assign_topic_leaders(
    topic: TopicImage,
    available: BrokerAvailability,
    rules: Rules,
    start: int = 0,
    end: int | None = None,
    which: Callable[[PartitionImage], bool] = _every,
) -> Iterator[PartitionChanged]:
    """The same for some partitions of one topic."""
    for index, partition in enumerate(topic.partitions[start:end], start):
        if not which(partition):
            continue
        new = next_state(partition, available, rules)
        if new is not partition and new != partition:
            if new.unclean_epoch > partition.unclean_epoch:
                _warn_unclean(topic, index, partition, new)
            yield record_of(topic.topic_id, index, new)


def _warn_unclean(topic: TopicImage, index: int, old: PartitionImage, new: PartitionImage) -> None:
    """How many records are lost is known when the replicas that held them are back and report what they
    drop.
    """
    holders = ", ".join(map(str, union(old.in_sync, old.eligible, without=()))) or "none"
    logger.warning(
        "%s-%s: broker %s leads epoch %s though it may lack acknowledged records; known to have them all: %s",
        topic.name, index, new.leader, new.leader_epoch, holders,
    )  # fmt: skip


def without_memory(
    partition: PartitionImage, broker_id: int, *, empty: bool, tail: bool = False
) -> PartitionImage:
    """A replica may lack records that it once held: it does not count as complete any more, though its log
    can be used. ``tail``: only records that it had not synced.
    """

    def others(replicas: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(replica for replica in replicas if replica != broker_id)

    led = partition.leader == broker_id
    return msgspec.structs.replace(
        lost(partition, broker_id, tail=tail),
        leader=NO_BROKER if led else partition.leader,
        in_sync=others(partition.in_sync),
        eligible=others(partition.eligible),
        last_leader=last_leader_without(partition, broker_id, empty=empty, tail=tail),
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
    # The broker epochs of the members that the leader means, in their order; -1: unknown; empty: all unknown.
    # If the leader was elected by vote: the number of the loss for which it has readmitted the member.
    member_epochs: tuple[int, ...] = ()
    # The leader was elected by vote and reports it: the members are the voters.
    elected: bool = False
    # The leader accepts no more records: the topic is to change to another mode, and these members hold its
    # whole log.
    sealed: bool = False


class ProposalResult(NamedTuple):
    """The result of a proposal. The response waits until the records are committed, also for a refusal."""

    records: list[MetadataRecord]
    error: ErrorCode = ErrorCode.NONE


def change_in_sync(
    image: ClusterImage, proposal: InSyncProposal, rules_of: RulesOf, rank: Rank = same_rank
) -> ProposalResult:
    """Accept a proposal, or refuse it with the code that tells the leader what to do.

    A refusal after which the leader continues without a new member is a change of the partition: an earlier
    copy of the same proposal may still arrive, and must then find another partition epoch. A refusal without
    a record (a ``TidelogError``) does not end the proposal, because it would be the response to every copy.
    """
    try:
        return ProposalResult(_take(image, proposal, rules_of, rank))
    except _Ineligible as refusal:
        logger.info("partition %s of %s: %s", proposal.partition, proposal.topic_id, refusal.message)
        return ProposalResult(_refused(image, proposal), refusal.code)


class _Ineligible(TidelogError):
    """A replica in the proposal cannot be a member now, though it may be later."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, ErrorCode.INELIGIBLE_REPLICA)


def _refused(image: ClusterImage, proposal: InSyncProposal) -> list[MetadataRecord]:
    """The unchanged partition with its next epoch. No record if the leader does not wait for a new member: a
    leader that is still restoring commits nothing yet, and one that has sealed its log commits nothing more.
    """
    topic = image.topic_by_id(proposal.topic_id)
    if topic is None or proposal.sealed:
        return []
    partition = topic.partitions[proposal.partition]
    if not set(proposal.members).difference(partition.in_sync, (proposal.broker_id,)):
        return []
    return [record_of(proposal.topic_id, proposal.partition, partition)]


def _take(
    image: ClusterImage, proposal: InSyncProposal, rules_of: RulesOf, rank: Rank
) -> list[MetadataRecord]:
    topic = image.topic_by_id(proposal.topic_id)
    if topic is None or not 0 <= proposal.partition < len(topic.partitions):
        raise TidelogError("no such partition", ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions[proposal.partition]
    if proposal.elected:
        return _told(image, topic, partition, proposal, rules_of(topic), rank)
    if proposal.sealed:
        rules = rules_of(topic)
        sealed = promised(partition, rules, _take_over(image, partition, proposal), rules)
        new = next_state(sealed, BrokerAvailability.of(image, rank), rules)
        return [record_of(proposal.topic_id, proposal.partition, new)]
    _check_proposer(image, partition, proposal)
    _check_unchanged(partition, proposal)
    if proposal.broker_id not in proposal.members or len(set(proposal.members)) < len(proposal.members):
        raise TidelogError("members must be unique and include the leader", ErrorCode.INVALID_REQUEST)
    if not set(proposal.members) <= set(partition.replicas):
        raise TidelogError("members must be replicas", ErrorCode.INVALID_REQUEST)
    _check_members(image, partition, proposal)
    rules = rules_of(topic)
    new = with_members(partition, proposal.members, rules)
    # A drained leader, or a reassignment, may have been waiting for the new member.
    return [
        record_of(
            proposal.topic_id, proposal.partition, next_state(new, BrokerAvailability.of(image, rank), rules)
        )
    ]


def _told(
    image: ClusterImage,
    topic: TopicImage,
    partition: PartitionImage,
    proposal: InSyncProposal,
    rules: Rules,
    rank: Rank,
) -> list[MetadataRecord]:
    """The replicas have voted. A replica that lost data counts again only when its leader has readmitted it
    for its latest loss.
    """
    _check_sender(image, proposal)
    if proposal.broker_id not in partition.replicas:
        raise TidelogError("the sender is not a replica of the partition", ErrorCode.INVALID_REQUEST)
    counted = {
        member
        for member, healed in zip_longest(proposal.members, proposal.member_epochs, fillvalue=-1)
        if member in image.brokers and _remembers(partition, proposal, member, healed)
    }
    voters = proposal.members
    if NO_BROKER in proposal.members or proposal.partition_epoch < partition.partition_epoch:
        # The set may be truncated again, or is older than what we know: no voter loses its vote because of
        # it, and no reassignment ends. The leader reports it again when it knows the current state.
        counted |= partition.remember
        voters = ()
    # A proposal without members says in which epoch the sender has voted, and names no leader. The
    # controllers appointed leaders when it was sent; by now the replicas may vote again.
    leader = proposal.broker_id if proposal.members else NO_BROKER
    report = LeaderReport(leader, proposal.leader_epoch, voters, tuple(sorted(counted)))
    new = told(partition, report, BrokerAvailability.of(image, rank), rules)
    return [] if new == partition else [record_of(topic.topic_id, proposal.partition, new)]


def _remembers(partition: PartitionImage, proposal: InSyncProposal, member: int, healed: int) -> bool:
    loss = partition.loss_of(member)
    if loss is None:
        return member in partition.remember
    # An elected leader holds everything that was ever committed, but it may have lost data after it reported.
    return loss.number == healed or (member == proposal.broker_id and loss.number <= proposal.partition_epoch)


def _take_over(image: ClusterImage, partition: PartitionImage, proposal: InSyncProposal) -> PartitionImage:
    """The leader has ended its log, and reports which replicas hold all of it: from here on the controllers
    maintain the in-sync set and appoint the leader.
    """
    _check_proposer(image, partition, proposal)
    if proposal.leader_epoch < partition.mode_epoch or not mode_changes.ends_in_seal(partition):
        # The seal is from an earlier period. It lacks records that were written since.
        raise TidelogError("the seal is from an earlier period", ErrorCode.FENCED_LEADER_EPOCH)
    holders = [member for member in proposal.members if member in unforgetful(partition)]
    able = [member for member in holders if not why_ineligible(image, partition, proposal, member)]
    if proposal.broker_id not in able:
        raise _Ineligible("the leader itself cannot be a member")
    # A holder that was fenced meanwhile leaves the in-sync set at once, by the rules of the next mode: if too
    # few members are left to commit anything, it is still eligible.
    members = tuple(
        member for member in holders if member in able or _is_only_fenced(image, partition, proposal, member)
    )
    return mode_changes.sealed(partition, proposal.leader_epoch, proposal.broker_id, members)


def _is_only_fenced(
    image: ClusterImage, partition: PartitionImage, proposal: InSyncProposal, member: int
) -> bool:
    """Whether a holder of a sealed log is unavailable, and it is certain that it still holds the log: no new
    process has registered since it was heard.
    """
    broker = image.brokers.get(member)
    heard = dict(zip(proposal.members, proposal.member_epochs, strict=False)).get(member, -1)
    return (
        broker is not None
        and broker.fenced
        and broker.broker_epoch == heard
        and member not in partition.offline
    )


def _check_sender(image: ClusterImage, proposal: InSyncProposal) -> None:
    broker = image.brokers.get(proposal.broker_id)
    if broker is None or broker.broker_epoch != proposal.broker_epoch or broker.fenced:
        raise TidelogError("the broker is not registered, or is fenced", ErrorCode.STALE_BROKER_EPOCH)


def _check_proposer(image: ClusterImage, partition: PartitionImage, proposal: InSyncProposal) -> None:
    _check_sender(image, proposal)
    check_leader(partition, proposal.broker_id, proposal.leader_epoch, proposal.partition_epoch)


def _check_unchanged(partition: PartitionImage, proposal: InSyncProposal) -> None:
    """Also where the replicas vote and any leader may report: this proposal is then from before the mode
    changed, and an earlier copy of it may have been accepted. So it must not be refused for good.
    """
    if proposal.partition_epoch != partition.partition_epoch:
        raise TidelogError("the partition has changed since", ErrorCode.INVALID_UPDATE_VERSION)


def _check_members(image: ClusterImage, partition: PartitionImage, proposal: InSyncProposal) -> None:
    """A leader whose own log is offline stays a member as long as there is no other, and only it can propose
    a member that holds everything: that member then takes over.
    """
    is_member = proposal.broker_id in partition.in_sync
    for member in proposal.members:
        if is_member and member == proposal.broker_id:
            continue
        problem = why_ineligible(image, partition, proposal, member)
        if problem:
            raise _Ineligible(f"broker {member} {problem}")


def why_ineligible(
    image: ClusterImage, partition: PartitionImage, proposal: InSyncProposal, member: int
) -> str:
    """Why a broker cannot be a member; empty if it can."""
    broker = image.brokers.get(member)
    if broker is None or broker.fenced or member in partition.offline:
        return "is fenced, or its log is offline"
    epochs = dict(zip(proposal.members, proposal.member_epochs, strict=False))
    if epochs.get(member, -1) not in (-1, broker.broker_epoch):
        # The new process may have lost what the earlier one had fetched.
        return "has restarted since"
    if broker.leaving and member not in partition.in_sync:
        return "is shutting down"
    return ""
