"""Rules between rules: each mutation takes one of them out, and a story notices."""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.controller import leader_assignment, logs
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.errors import InvariantViolation
from tidelog.log import checkpoints
from tidelog.log.epochs import EpochCache
from tidelog.replication import ballot_book
from tidelog.replication.attachments.restorer import Restoring
from tidelog.replication.ballot_book import BallotBook
from tidelog.replication.fetching import FetchLoop
from tidelog.replication.messages import NO_OTHERS, OtherDirectories
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import seams_two
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def take_the_name_of_the_metadata(patch: pytest.MonkeyPatch) -> None:
    """A broker votes on partitions under the name that its metadata log has."""
    original = BallotBook._take

    def take(self: BallotBook, line: Any) -> None:
        if line.partition != ballot_book._NAME:
            original(self, line)

    patch.setattr(BallotBook, "_take", take)


def believe_every_history(patch: pytest.MonkeyPatch) -> None:
    """A history of epochs whose numbers rise is a right one."""
    original = EpochCache.decode

    def decode(text: bytes) -> EpochCache:
        return original(b"".join(b" ".join(row.split()) + b"\n" for row in text.splitlines()))

    patch.setattr(EpochCache, "decode", decode)


def judge_who_leads(patch: pytest.MonkeyPatch) -> None:
    """A leader whose log is offline takes nobody in."""

    def check_members(
        image: ClusterImage, partition: PartitionImage, proposal: leader_assignment.InSyncProposal
    ) -> None:
        for member in proposal.members:
            if leader_assignment.why_ineligible(image, partition, proposal, member):
                raise leader_assignment._Ineligible(f"broker {member}")

    patch.setattr(leader_assignment, "_check_members", check_members)


def wait_for_the_source(patch: pytest.MonkeyPatch) -> None:
    """Whom a leader copies from is waited for, however long it is silent."""
    patch.setattr(Restoring, "_give_up_source", lambda self: None)


def decide_for_one_epoch(patch: pytest.MonkeyPatch) -> None:
    """What an operator has decided is over with the leader epoch."""

    def in_a_new_epoch(partition: PartitionImage) -> PartitionImage:
        return msgspec.structs.replace(partition, leader_epoch=partition.leader_epoch + 1)

    patch.setattr(logs, "in_a_new_epoch", in_a_new_epoch)


def wait_for_the_number(patch: pytest.MonkeyPatch) -> None:
    """A voter that lost records counts itself again when the metadata shows the number of its loss."""
    patch.setattr(QuorumPartitions, "_healed", lambda self, key: -1)


def report_every_noted_loss(patch: pytest.MonkeyPatch) -> None:
    """A voter reports what an earlier process noted, whatever its log says."""
    patch.setattr(BallotBook, "lost_since", lambda self, key: -1)


def believe_every_topic_id(patch: pytest.MonkeyPatch) -> None:
    """An id of a topic is a right one if it can be read."""
    original = checkpoints.decode_topic_id

    def decode(text: bytes) -> UUID:
        return original(b"".join(text.splitlines(keepends=True)[:2]))

    patch.setattr(checkpoints, "decode_topic_id", decode)


def fetch_under_one_id(patch: pytest.MonkeyPatch) -> None:
    """A broker names one id for all partitions that it fetches from a leader."""

    def name(self: FetchLoop) -> tuple[UUID | None, OtherDirectories]:
        return next((driver.voter.directory for driver in self._electing), None), NO_OTHERS

    patch.setattr(FetchLoop, "_name_directories", name)


class Mutation(NamedTuple):
    patch: Patch
    story: Callable[[], object]


MUTATIONS = (
    Mutation(fetch_under_one_id, seams_two.voter_with_two_ids),
    Mutation(take_the_name_of_the_metadata, seams_two.voter_with_a_damaged_metadata_log),
    Mutation(believe_every_history, seams_two.wrong_epoch_in_the_history),
    Mutation(judge_who_leads, seams_two.last_member_is_offline),
    Mutation(wait_for_the_source, seams_two.source_of_the_last_member_is_lost),
    Mutation(wait_for_the_source, seams_two.one_of_two_sources_is_lost),
    Mutation(decide_for_one_epoch, seams_two.operator_has_decided),
    Mutation(wait_for_the_number, seams_two.loss_healed_before_it_was_heard_of),
    Mutation(report_every_noted_loss, seams_two.killed_before_it_heard_of_its_readmission),
    Mutation(believe_every_topic_id, seams_two.wrong_topic_id),
)


@pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=lambda each: f"{each.patch.__name__}:{each.story.__name__}"
)
def test_mutation_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    with pytest.raises((Violation, StoryFailed, InvariantViolation)):
        mutation.story()
