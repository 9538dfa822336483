"""Racks that lose power: what is tolerated, and the minimal sets that are not."""

from itertools import combinations

import pytest

from tidelog.planner.faults import Faults, Placement, default_controllers
from tidelog.planner.model import outcome
from tidelog.planner.promises import Terms
from tidelog.planner.racks import (
    losing,
    sentences,
    spread,
    stopping_writes,
    tolerated,
    tolerated_by_moving,
)


def placed(terms: Terms, racks: int, brokers: int = 0) -> Placement:
    count = brokers or terms.replicas
    controllers = default_controllers(range(1, count + 1))
    return Placement(tuple(range(1, terms.replicas + 1)), controllers, spread(count, racks))


def test_brokers_are_spread_in_turns() -> None:
    assert spread(5, 2) == ((1, "1"), (2, "2"), (3, "1"), (4, "2"), (5, "1"))
    assert spread(3, 0) == ()


TOLERATED = [
    (Terms("isr", 3, min_in_sync=2), 3, 1),
    (Terms("isr", 3, min_in_sync=2), 2, 0),  # One rack has two replicas and two controllers.
    (Terms("quorum", 3, synced=True), 3, 1),
    (Terms("quorum", 5, synced=True), 5, 2),
    (Terms("quorum", 5, synced=True), 3, 1),
    (Terms("primary-backup", 2, min_in_sync=2), 2, 0),
    (Terms("isr", 3, min_in_sync=1), 3, 0),  # A late follower would lead without the newest records.
    (Terms("isr", 3, min_in_sync=1, synced=True), 3, 1),
]


@pytest.mark.parametrize(("terms", "racks", "expected"), TOLERATED, ids=str)
def test_racks_tolerated(terms: Terms, racks: int, expected: int) -> None:
    assert tolerated(terms, placed(terms, racks)) == expected


@pytest.mark.parametrize("terms", [each for each, _, _ in TOLERATED], ids=str)
@pytest.mark.parametrize("racks", [1, 2, 3])
def test_the_sets_are_those_of_the_brokers_in_the_racks(terms: Terms, racks: int) -> None:
    """Against the model, rack by rack, for the leader that the placement names first."""
    where = placed(terms, racks)
    stopping, lost = (
        stopping_writes(terms, where),
        [each for each in losing(terms, where) if not each.others_slow],
    )
    for size in range(1, len(where.rack_names) + 1):
        for chosen in combinations(where.rack_names, size):
            struck = frozenset(broker for rack in chosen for broker in where.in_rack(rack))
            found = outcome(terms, where, Faults(power_lost=struck))
            covered = [each for each in stopping if {*each.racks} <= {*chosen}]
            assert found.writes or covered
            assert not found.loss or [each for each in lost if {*each.racks} <= {*chosen}]


def test_sentences() -> None:
    terms = Terms("isr", 3, min_in_sync=2)
    three, two = placed(terms, 3), placed(terms, 2)
    assert sentences(stopping_writes(terms, three), three) == ["Any 2 of the racks 1, 2 and 3 lose power."]
    assert sentences(losing(terms, three), three) == [
        "Racks 1, 2 and 3 lose power.",
        "Any 2 of the racks 1, 2 and 3 lose power, and the replicas in the others are slow.",
    ]
    assert sentences(stopping_writes(terms, two), two) == ["Rack 1 loses power."]


@pytest.mark.parametrize("terms", [each for each, _, _ in TOLERATED], ids=str)
def test_racks_without_a_replica_or_a_controller_make_no_difference(terms: Terms) -> None:
    """Of 50 racks there are 10^15 sets; three or five racks decide."""
    where = placed(terms, 50, 50)._replace(controllers=(1, 2, 3))
    few = Placement(where.replicas, where.controllers, where.racks[: max(3, terms.replicas)])
    assert tolerated(terms, where) == tolerated(terms, few)
    assert stopping_writes(terms, where) == stopping_writes(terms, few)
    assert losing(terms, where) == losing(terms, few)


def test_racks_that_are_alike_are_all_named() -> None:
    terms = Terms("isr", 4, min_in_sync=3)
    where = Placement((1, 2, 3, 4), (), spread(6, 6))
    assert sentences(stopping_writes(terms, where), where) == ["Any 2 of the racks 1, 2, 3 and 4 lose power."]


def test_producers_that_may_move_need_one_primary_with_power() -> None:
    double = Terms("primary-backup", 2, min_in_sync=2, synced=True)
    where = Placement((1, 2), (), spread(4, 4))
    assert (tolerated(double, where), tolerated_by_moving(double, where, 4)) == (0, 1)
    # Two racks that are opposite each other leave no pair of neighbours.
    alone = Terms("primary-backup", 1, min_in_sync=1, synced=True)
    assert tolerated_by_moving(alone, Placement((1,), (), spread(4, 4)), 4) == 3
    assert tolerated_by_moving(alone._replace(synced=False), Placement((1,), (), spread(4, 4)), 4) == 0
