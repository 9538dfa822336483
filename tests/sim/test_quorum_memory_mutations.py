"""Each mutation gives a replica that lost data its vote back against the rules, and a story notices."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tidelog.broker.partitions.table import PartitionTable
from tidelog.broker.quorum import partitions as quorum_partitions
from tidelog.broker.quorum import voters as quorum_voters
from tidelog.config.modes import QUORUM
from tidelog.controller.image import PartitionImage
from tidelog.controller.records import Loss
from tidelog.controller.successions import BY_MODE, quorum
from tidelog.errors import InvariantViolation
from tidelog.replication.damage import Damage
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import Election
from tidelog.replication.fetch_server import FetchServer
from tidelog.replication.voters import VoterSet
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.stories import quorum_memory as stories
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def vote_again_by_arithmetic(patch: pytest.MonkeyPatch) -> None:
    """Where a majority has lost data, everybody counts with what it has."""
    original = quorum_voters.forgot

    def forgot(partition: PartitionImage, voters: VoterSet, replica: int) -> bool:
        enough = 2 * len(partition.remember) > len(partition.replicas)
        return enough and original(partition, voters, replica)

    patch.setattr(quorum_voters, "forgot", forgot)
    patch.setattr(quorum_partitions, "forgot", forgot)


def overlook_removed_logs(patch: pytest.MonkeyPatch) -> None:
    """An empty log that has taken the place of one that voted is taken for what it always was."""
    patch.setattr(PartitionTable, "_must_note_loss", lambda self, topic, index: False)
    patch.setattr(Damage, "came_back", lambda self: None)  # Checkpoints tell of it, too.


def number_only_the_first_loss(patch: pytest.MonkeyPatch) -> None:
    """A replica that was readmitted once is taken for readmitted for ever."""
    original = quorum.lost
    known: dict[int, int] = {}

    def lost(partition: PartitionImage, replica: int, *, tail: bool) -> PartitionImage:
        new = original(partition, replica, tail=tail)
        losses = tuple(
            msgspec.structs.replace(each, number=known.setdefault(each.replica, each.number))
            for each in new.losses
        )
        return msgspec.structs.replace(new, losses=losses)

    patch.setitem(BY_MODE, QUORUM, BY_MODE[QUORUM]._replace(lost=lost))


def a_power_failure_makes_up_for_an_empty_disk(patch: pytest.MonkeyPatch) -> None:
    """Who lost everything counts as one that lost its unsynced tail after the next power failure."""

    def lost(partition: PartitionImage, replica: int, *, tail: bool) -> PartitionImage:
        others = (each for each in partition.losses if each.replica != replica)
        losses = (*others, Loss(replica, partition.partition_epoch + 1, tail))
        return msgspec.structs.replace(partition, losses=losses)

    patch.setitem(BY_MODE, QUORUM, BY_MODE[QUORUM]._replace(lost=lost))


def leave_voter_sets_unsynced(patch: pytest.MonkeyPatch) -> None:
    """``flush.messages`` holds for voter sets, too."""
    patch.setattr(ReplicaDriver, "sync_now", lambda self: None)


def count_replicas_that_do_not_vote_yet(patch: pytest.MonkeyPatch) -> None:
    """Whether those that remember are a majority is asked of all replicas, also of those that only come."""
    original = quorum_voters.forgot

    def forgot(partition: PartitionImage, voters: VoterSet, replica: int) -> bool:
        loss = partition.loss_of(replica)
        lost_tail = loss is not None and loss.tail
        if lost_tail and 2 * len(partition.remember) <= len(partition.replicas):
            return False
        return original(partition, voters, replica)

    patch.setattr(quorum_voters, "forgot", forgot)
    patch.setattr(quorum_partitions, "forgot", forgot)


def believe_only_the_own_log(patch: pytest.MonkeyPatch) -> None:
    """That a replica was readmitted it learns from its own log, whatever the controllers or candidates
    say.
    """
    patch.setattr(quorum_partitions.QuorumPartitions, "_recall", lambda self, driver: None)
    patch.setattr(Election, "_is_readmitted_by", lambda self, request: False)


def overlook_who_waits(patch: pytest.MonkeyPatch) -> None:
    """Only a new fetch shows that a replica has caught up."""

    def note_alive(self: FetchServer, driver: ReplicaDriver) -> None:
        for follower, standing in self._sessions.items():
            if driver in standing.items:
                driver.voter.note_alive(follower, standing.directory, standing.heard_ms)

    patch.setattr(FetchServer, "note_alive", note_alive)


@pytest.mark.parametrize(
    ("mutate", "story"),
    [
        (vote_again_by_arithmetic, stories.two_return_empty),
        (overlook_removed_logs, stories.two_directories_removed),
        (number_only_the_first_loss, stories.loses_twice_in_one_process),
        (a_power_failure_makes_up_for_an_empty_disk, stories.majority_loses_its_tail),
        (leave_voter_sets_unsynced, stories.voter_sets_are_synced),
        (count_replicas_that_do_not_vote_yet, stories.loses_power_during_a_move),
        (believe_only_the_own_log, stories.readmitted_while_cut_off),
        (overlook_who_waits, stories.one_directory_removed),
    ],
    ids=lambda each: each.__name__,
)
def test_a_story_notices(mutate: Patch, story: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation, InvariantViolation)):
        story()
