"""Each mutation leaves a healthy partition without a leader, or gives it one against the rules, and a story
notices.
"""

from collections.abc import Callable

import msgspec
import pytest

from tidelog.broker.quorum import partitions as quorum_partitions
from tidelog.broker.quorum import voters as quorum_voters
from tidelog.config.modes import QUORUM
from tidelog.controller import leader_assignment
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions import BY_MODE, quorum, steps
from tidelog.errors import InvariantViolation
from tidelog.replication.election import Election
from tidelog.replication.voters import VoterSet
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.stories import wholeness as stories
from tidelog.sim.telling import StoryFailed, Telling


def silence_late_voters(patch: pytest.MonkeyPatch) -> None:
    """Who was behind when votes began counts as one that lost data."""
    original = quorum_voters.forgot

    def forgot(partition: PartitionImage, voters: VoterSet, replica: int) -> bool:
        losses = tuple(msgspec.structs.replace(each, late=False) for each in partition.losses)
        return original(msgspec.structs.replace(partition, losses=losses), voters, replica)

    patch.setattr(quorum_voters, "forgot", forgot)
    patch.setattr(quorum_partitions, "forgot", forgot)


def silence_the_first_newcomer(patch: pytest.MonkeyPatch) -> None:
    """Who comes to a lone voter votes only when it has the set that says so, whatever a candidate says."""
    patch.setattr(quorum_voters, "is_lone", lambda partition: False)
    patch.setattr(Election, "_is_readmitted_by", lambda self, request: False)


def stay_late_without_data(patch: pytest.MonkeyPatch) -> None:
    """Who was late when votes began has lost nothing, whatever it loses."""
    original = quorum.lost

    def lost(partition: PartitionImage, replica: int, *, tail: bool) -> PartitionImage:
        before, new = partition.loss_of(replica), original(partition, replica, tail=tail)
        late = before is not None and before.late
        losses = (msgspec.structs.replace(each, late=each.late or late) for each in new.losses)
        return msgspec.structs.replace(new, losses=tuple(losses))

    patch.setitem(BY_MODE, QUORUM, BY_MODE[QUORUM]._replace(lost=lost))


def take_a_backup_for_the_last_leader(patch: pytest.MonkeyPatch) -> None:
    """The last backup that forgets hides that the primary's disk was replaced."""
    patch.setattr(leader_assignment, "last_leader_without", steps.last_complete)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (silence_late_voters, stories.late_voter_elects),
        (silence_late_voters, stories.late_voter_stands),
        (silence_the_first_newcomer, stories.first_newcomer_elects),
        (stay_late_without_data, stories.late_voter_loses_data),
        (take_a_backup_for_the_last_leader, stories.replaced_primary_waits_for_the_operator),
    ],
)
def test_a_story_notices(
    mutate: Callable[[pytest.MonkeyPatch], None],
    told: Callable[[], Telling],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation, InvariantViolation)):
        told()
