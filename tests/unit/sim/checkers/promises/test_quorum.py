"""Whether voters can still elect a leader, or an operator has to decide: by the sets in their own logs."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from tidelog.broker.node.node import Node
from tidelog.controller.image import PartitionImage, TopicImage
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
    committed: tuple[int, ...], logs: Mapping[int, tuple[tuple[int, ...], Tail]], *lost: int
) -> QuorumPromise:
    """``logs``: of each running replica, the newest set and the end. ``lost``: who lost its unsynced tail."""
    losses = Losses()
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
