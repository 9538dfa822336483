"""Voters that go wrong by what a candidate's log says of their readmission: a story notices."""

from collections.abc import Callable

import pytest

from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.broker.quorum.voters import PartitionVoters
from tidelog.replication.election import Election
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.stories import admitted_voters
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def rely_on_the_own_log(patch: pytest.MonkeyPatch) -> None:
    """Only its own log can show a voter that it was readmitted."""
    patch.setattr(Election, "_is_readmitted_by", lambda self, request: False)


def take_any_readmission(patch: pytest.MonkeyPatch) -> None:
    """A readmission counts for later losses, too."""
    patch.setattr(Election, "_is_readmitted_by", lambda self, request: request.heals >= 0)


def take_the_number_of_an_earlier_loss(patch: pytest.MonkeyPatch) -> None:
    """A replica that has just lost its log goes by the number in its metadata, which learns of the new loss
    late.
    """
    patch.setattr(QuorumPartitions, "_has_unnumbered_loss", lambda self, driver: False)
    patch.setattr(QuorumPartitions, "_recall", lambda self, driver: None)


def readmit_by_old_metadata(patch: pytest.MonkeyPatch) -> None:
    """A leader removes a voter that has led since its loss."""
    patch.setattr(PartitionVoters, "_is_recorded", lambda self, partition: True)


MUTATIONS: list[tuple[Patch, Callable[[], object], type[Exception]]] = [
    (rely_on_the_own_log, admitted_voters.added_voter_lacks_the_set, StoryFailed),
    (rely_on_the_own_log, admitted_voters.readmitted_voter_lacks_the_set, StoryFailed),
    (readmit_by_old_metadata, admitted_voters.leader_with_old_metadata, StoryFailed),
    (take_any_readmission, admitted_voters.readmitted_for_an_earlier_loss, Violation),
    (take_the_number_of_an_earlier_loss, admitted_voters.readmitted_for_an_earlier_loss, Violation),
]


@pytest.mark.parametrize(("mutation", "story", "error"), MUTATIONS, ids=lambda each: each.__name__)
def test_mutation_is_noticed(
    mutation: Patch, story: Callable[[], object], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises(error):
        story()
