"""The rules of the steps between replication modes have guards: each mutation breaks one of them, and a story
that sets the trap must notice.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tidelog.broker.quorum import partitions as quorum_partitions
from tidelog.controller import leader_assignment
from tidelog.controller.image import ClusterImage
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.records import MetadataRecord
from tidelog.controller.successions.mode_changes import STEPS
from tidelog.errors import InvariantViolation
from tidelog.replication.attachments import seal
from tidelog.replication.attachments.seal import Sealing, seal_at_end
from tidelog.replication.replica import Replica
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import change_epochs, changes
from tidelog.sim.telling import StoryFailed
from tidelog.types import NO_BROKER

Patch = Callable[[pytest.MonkeyPatch], None]


def seal_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    """The leader takes no more records, but whoever is elected after it does not know."""

    def end(self: Sealing) -> None:
        replica = self._driver.replica
        if self.wanted and replica.sealed_end_offset is None:
            replica.seal(replica.log.end_offset)

    patch.setattr(Sealing, "_end", end)


def overlook_the_seal(patch: pytest.MonkeyPatch) -> None:
    """Whoever is elected does not look how its log ends."""
    patch.setattr(Sealing, "found", lambda self: None)


def commit_behind_the_seal(patch: pytest.MonkeyPatch) -> None:
    """With what a leader writes to say that it leads is dealt as with anything else, also behind a seal."""
    original = Sealing.found

    def found(self: Sealing) -> None:
        original(self)
        if self._driver.replica.sealed_end_offset is not None:
            self._driver.replica.seal(1 << 60)

    patch.setattr(Sealing, "found", found)


def believe_hearsay(patch: pytest.MonkeyPatch) -> None:
    """A voter follows whoever is said to lead, however far its epoch is."""
    patch.setattr(quorum_partitions, "EPOCHS_AHEAD", 1 << 31)


def forget_when_it_was_sealed(patch: pytest.MonkeyPatch) -> None:
    """The seal of an earlier time counts for ever."""
    patch.setattr(seal, "seal_at_end", lambda log, since_epoch: seal_at_end(log, 0))


def take_everybody_for_a_holder(patch: pytest.MonkeyPatch) -> None:
    """The members are whoever is a replica, and not those who hold the whole log."""
    patch.setattr(Replica, "_holders", lambda self: self.replicas)


def vote_with_a_minority_in_sync(patch: pytest.MonkeyPatch) -> None:
    """To quorum at once: those who lack records can elect each other."""
    step = STEPS["isr", "quorum"]._replace(waits_for=lambda partition, standing: None)
    patch.setitem(STEPS, ("isr", "quorum"), step)


def lead_with_less(patch: pytest.MonkeyPatch) -> None:
    """To primary-backup at once, whether or not the first replica has everything."""
    step = STEPS["isr", "primary-backup"]._replace(waits_for=lambda partition, standing: None)
    patch.setitem(STEPS, ("isr", "primary-backup"), step)


def go_without_the_primary(patch: pytest.MonkeyPatch) -> None:
    """From primary-backup at once, with whoever is there."""
    step = STEPS["primary-backup", "isr"]._replace(
        waits_for=lambda partition, standing: None, leader=lambda partition: partition.in_sync[0]
    )
    patch.setitem(STEPS, ("primary-backup", "isr"), step)


def appoint_in_the_next_epoch(patch: pytest.MonkeyPatch) -> None:
    """The controllers begin right above the election they heard of, while voters may go on."""
    patch.setitem(STEPS, ("quorum", "isr"), STEPS["quorum", "isr"]._replace(epochs_ahead=1))


def change_within_the_epoch(patch: pytest.MonkeyPatch) -> None:
    """The epoch stays when the mode changes."""
    for pair, step in list(STEPS.items()):
        patch.setitem(STEPS, pair, step._replace(epochs_ahead=0))


def take_an_epoch_for_an_election(patch: pytest.MonkeyPatch) -> None:
    """Whoever names an epoch in which it has voted leads it."""
    original = leader_assignment._take

    def take(image: ClusterImage, proposal: InSyncProposal, *rest: Any) -> list[MetadataRecord]:
        if proposal.elected and not proposal.members:
            # As the winner of an election reports it while its voters are not committed.
            proposal = proposal._replace(members=(proposal.broker_id, NO_BROKER), member_epochs=(-1, -1))
        return original(image, proposal, *rest)

    patch.setattr(leader_assignment, "_take", take)


class Mutation(NamedTuple):
    patch: Patch
    story: Callable[[], object]


MUTATIONS = [
    Mutation(seal_in_memory_only, changes.voters_that_have_not_heard),
    Mutation(overlook_the_seal, changes.voters_that_have_not_heard),
    Mutation(commit_behind_the_seal, changes.voters_that_have_not_heard),
    Mutation(appoint_in_the_next_epoch, changes.voters_that_have_not_heard),
    Mutation(believe_hearsay, changes.voters_do_not_follow_hearsay),
    Mutation(forget_when_it_was_sealed, changes.there_and_back),
    Mutation(take_everybody_for_a_holder, changes.who_lacks_records_is_no_member),
    Mutation(vote_with_a_minority_in_sync, changes.majority_is_waited_for),
    Mutation(lead_with_less, changes.first_replica_is_waited_for),
    Mutation(go_without_the_primary, changes.primary_is_waited_for),
    Mutation(change_within_the_epoch, changes.round_trip),
    Mutation(take_an_epoch_for_an_election, change_epochs.epoch_that_a_late_voter_names),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.patch.__name__)
def test_its_story_notices(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    with pytest.raises((Violation, InvariantViolation, StoryFailed)):
        mutation.story()
