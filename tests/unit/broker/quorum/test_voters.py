"""When a replica of a quorum topic may vote, by what the metadata and its own log say."""

import pytest
from msgspec.structs import replace

from tidelog.broker.quorum.voters import forgot, informed
from tidelog.config.modes import QUORUM
from tidelog.controller.image import PartitionImage
from tidelog.controller.records import Loss
from tidelog.replication.voters import Voter, VoterSet

THREE = VoterSet.of((1, 2, 3))
READMITTED = VoterSet([Voter(1), Voter(2), Voter(3, heals=5)])


def partition(*losses: Loss, replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionImage:
    gone = {loss.replica for loss in losses}
    whole = tuple(replica for replica in replicas if replica not in gone)
    return PartitionImage(replicas, whole, -1, 7, mode=QUORUM, losses=losses)


@pytest.mark.parametrize(
    ("losses", "voters", "forgetful"),
    [
        ((), THREE, set()),
        ((Loss(3, 5),), THREE, {3}),
        ((Loss(3, 5),), READMITTED, set()),
        ((Loss(3, 6),), READMITTED, {3}),  # It lost data again since.
        ((Loss(2, 4), Loss(3, 5)), THREE, {2, 3}),
        ((Loss(1, 3), Loss(2, 4), Loss(3, 5)), THREE, {1, 2, 3}),
        ((Loss(3, 5, tail=True),), THREE, {3}),
        ((Loss(2, 4, tail=True), Loss(3, 5, tail=True)), THREE, set()),
        ((Loss(2, 4), Loss(3, 5, tail=True)), THREE, {2, 3}),  # Only one of them holds all but its tail.
        ((Loss(1, 2), Loss(2, 4, tail=True), Loss(3, 5, tail=True)), THREE, {1}),
        # Two vote while the third is readmitted: nobody is elected without the one that remembers.
        ((Loss(2, 4, tail=True), Loss(3, 5, tail=True)), VoterSet.of((1, 2)), {3}),
        ((Loss(2, 4), Loss(3, 5, tail=True)), VoterSet.of((1, 2)), {2, 3}),
        # The power failed after it had come back empty: before it was readmitted, and after that.
        ((Loss(2, 4, tail=True), Loss(3, 6, tail=True, base=5)), THREE, {2, 3}),
        ((Loss(2, 4, tail=True), Loss(3, 6, tail=True, base=5)), READMITTED, set()),
        # Behind when votes began, and nothing lost since.
        ((Loss(3, 5, late=True),), THREE, set()),
        ((Loss(2, 4), Loss(3, 5, late=True)), THREE, {2}),
    ],
)
def test_who_forgot(losses: tuple[Loss, ...], voters: VoterSet, forgetful: set[int]) -> None:
    assert {each for each in (1, 2, 3) if forgot(partition(*losses), voters, each)} == forgetful


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        ((Loss(3, 5, late=True),), {1, 2}),
        ((Loss(2, 4, late=True), Loss(3, 5, late=True)), {1}),
        ((Loss(2, 4, tail=True), Loss(3, 5, late=True)), {1, 2}),
        ((Loss(3, 5),), set()),
        ((), set()),
    ],
)
def test_who_can_tell_a_late_replica_of_deletions(losses: tuple[Loss, ...], told: set[int]) -> None:
    assert informed(partition(*losses), 3) == told


def test_nobody_has_to_tell_one_that_a_move_adds() -> None:
    """It has fetched the set in which it votes, and where the log begins."""
    moving = replace(partition(Loss(4, 3, late=True), replicas=(1, 2, 3, 4)), adding=(4,))
    assert informed(moving, 4) == frozenset()


def test_replicas_that_do_not_vote_yet_do_not_count() -> None:
    moving = partition(Loss(3, 5, tail=True), Loss(4, 3), replicas=(1, 2, 3, 4))
    assert forgot(moving, THREE, 3)
    assert forgot(moving, THREE, 4)


def test_who_has_no_number_waits_for_one() -> None:
    unnumbered = PartitionImage((1, 2, 3), (1,), -1, 7, mode=QUORUM)
    assert forgot(unnumbered, THREE, 3)


def test_newcomers_vote_only_for_a_lone_voter() -> None:
    """Whoever else asks may do so with an old set, from a time when they were voters before."""
    losses = (Loss(2, 4, late=True), Loss(3, 4, late=True))
    alone = replace(partition(*losses), adding=(2, 3))
    assert not forgot(alone, VoterSet.of((1,)), 2)
    two = replace(alone, in_sync=(1, 2), losses=losses[1:])
    assert forgot(two, VoterSet.of((1, 2)), 3)
    moving = replace(partition(Loss(4, 3, late=True), replicas=(1, 2, 3, 4)), adding=(4,))
    assert forgot(moving, THREE, 4)
    behind = replace(partition(*losses), adding=(3,))
    assert forgot(behind, VoterSet.of((1, 2)), 3)
