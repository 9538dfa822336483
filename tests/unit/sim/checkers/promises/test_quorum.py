"""Whether voters can still elect a leader, or an operator has to decide: by the sets in their own logs."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import msgspec
import pytest

from tidelog.broker.node.node import Node
from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.controller.records import Loss
from tidelog.replication.attachments.voters import LogVoters
from tidelog.replication.replica import Role
from tidelog.replication.voters import VoterHistory, VoterSet
from tidelog.replication.votes import Tail
from tidelog.sim.checkers.promises import Place, Surroundings
from tidelog.sim.checkers.promises.losses import Losses
from tidelog.sim.checkers.promises.place import Key
from tidelog.sim.checkers.promises.quorum import QuorumPromise

KEY: Key = (UUID(int=1), 0)
OLD, NEW = Tail(5, 17), Tail(5, 18)  # without and with the newest set
THREE, FOUR = (3, 4, 5), (1, 3, 4, 5)


class LatestVoters(LogVoters):
    """Only what is in the log."""

    def __init__(self, *ids: int) -> None:
        self.history = VoterHistory(VoterSet.of(ids))


def promise(
    committed: tuple[int, ...],
    logs: Mapping[int, tuple[tuple[int, ...], Tail]],
    *lost: int,
    losses: Losses | None = None,
) -> QuorumPromise:
    """``logs``: of each running replica, the newest set and the end. ``lost``: who lost its unsynced tail."""
    losses = Losses() if losses is None else losses
    for node in lost:
        losses.note(KEY, node, 1, for_good=False)
    nodes = [node_of(me, ids, tail) for me, (ids, tail) in logs.items()]
    around = SimpleNamespace(nodes=lambda: nodes, losses=losses, voters=lambda *_: frozenset(committed))
    return QuorumPromise(cast(Surroundings, around))


def node_of(me: int, ids: tuple[int, ...], tail: Tail) -> Node:
    replica = SimpleNamespace(role=Role.FOLLOWER)
    driver = SimpleNamespace(voters=LatestVoters(*ids), tail=tail, replica=replica)
    return cast(Node, SimpleNamespace(me=me, host=SimpleNamespace(drivers={KEY: driver})))


@pytest.fixture
def place() -> Place:
    partition = PartitionImage(FOUR, (3, 4), -1, 5, mode="quorum")
    return Place(TopicImage("t", KEY[0], (partition,), {}), 0)


def test_half_of_the_voters_of_a_set_that_is_not_committed_need_an_operator(place: Place) -> None:
    logs = {1: (THREE, OLD), 3: (FOUR, NEW), 4: (FOUR, NEW), 5: (FOUR, OLD)}
    found = promise(THREE, logs, 1, 5)
    assert not found.can_elect(place)
    assert found.operator_decides(place, frozenset())


def test_a_voter_with_the_earlier_set_cannot_be_elected_by_one_with_the_later(place: Place) -> None:
    logs = {1: (THREE, OLD), 3: (THREE, OLD), 4: (FOUR, NEW), 5: (FOUR, OLD)}
    assert not promise(THREE, logs, 1, 5).can_elect(place)
    logs[4] = (THREE, OLD)
    assert promise(THREE, logs, 1, 5).can_elect(place)


def test_voters_that_lost_nothing_are_not_helped(place: Place) -> None:
    logs = {1: (THREE, OLD), 3: (FOUR, NEW), 4: (FOUR, NEW), 5: (FOUR, OLD)}
    for lost in (), (1,), (5,):
        assert promise(THREE, logs, *lost).can_elect(place)
        assert not promise(THREE, logs, *lost).operator_decides(place, frozenset())


def test_what_the_log_of_a_voter_says_that_is_down_is_not_known(place: Place) -> None:
    logs = {1: (THREE, OLD), 3: (FOUR, NEW), 5: (FOUR, OLD)}
    assert promise(THREE, logs, 1, 5).can_elect(place)
    assert not promise(FOUR, logs, 1, 5).can_elect(place)


def test_a_smaller_set_that_is_not_committed_elects(place: Place) -> None:
    logs = {1: (FOUR, OLD), 3: (THREE, NEW), 4: (THREE, NEW), 5: (FOUR, OLD)}
    assert promise(FOUR, logs, 1, 5).can_elect(place)


@pytest.fixture
def leaderless() -> Place:
    """Replica 1 is complete, 3 was behind when votes began."""
    losses = (Loss(2, 7, tail=True), Loss(3, 9, tail=True, base=6))
    partition = PartitionImage((1, 2, 3), (1,), -1, 5, mode="quorum", mode_epoch=5, losses=losses)
    return Place(TopicImage("t", KEY[0], (partition,), {}), 0)


def presumed(place: Place, losses: Losses, complete: tuple[int, ...]) -> QuorumPromise:
    """``complete``: who was when votes began."""
    voters = (1, 2, 3)
    found = promise(voters, dict.fromkeys(voters, (voters, OLD)), losses=losses)
    found.passed(place, msgspec.structs.replace(place.partition, in_sync=complete))
    return found


def reported(*nodes: int) -> Losses:
    """They lost power, nothing is missing, and the controllers must think that something is."""
    losses = Losses()
    for node in nodes:
        losses.confessed(KEY, node, synced=False)
    return losses


def test_voters_that_count_as_lossy_and_do_not_vote_need_an_operator(leaderless: Place) -> None:
    found = presumed(leaderless, reported(2, 3), (1, 2))
    assert found.can_elect(leaderless)
    assert found.operator_decides(leaderless, frozenset())


def test_a_majority_that_counts_as_having_lost_its_tail_is_not_helped(leaderless: Place) -> None:
    found = presumed(leaderless, reported(2, 3), (1, 2, 3))
    assert not found.operator_decides(leaderless, frozenset())


def test_a_minority_that_counts_as_lossy_is_not_helped(leaderless: Place) -> None:
    assert not presumed(leaderless, reported(3), (1, 2)).operator_decides(leaderless, frozenset())


def test_who_has_caught_up_since_does_not_count_as_lossy(leaderless: Place) -> None:
    losses = reported(2, 3)
    losses.healed(KEY, 3)
    losses.confessed(KEY, 3, synced=True)  # It lost power once more, and the topic requires syncs now.
    assert not presumed(leaderless, losses, (1, 2)).operator_decides(leaderless, frozenset())
