"""Where replicas go."""

from tidelog.lab.run.placement import assignment, order


def test_the_active_controller_is_last() -> None:
    assert order([1, 2, 3], [1, 2, 3], 1, 1) == [2, 3, 1]


def test_every_round_begins_with_another() -> None:
    assert order([1, 2, 3], [1, 2, 3], 1, 2) == [3, 2, 1]
    assert order([1, 2, 3], [1, 2, 3], 1, 3) == [2, 3, 1]


def test_brokers_that_are_no_controllers_come_first() -> None:
    assert order([1, 2, 3, 4, 5, 6], [1, 2, 3], 2, 1) == [4, 5, 6, 1, 3, 2]
    assert order([1, 2, 3, 4, 5], [1], 1, 1) == [2, 3, 4, 5, 1]


def test_unknown_controllers_do_not_matter() -> None:
    assert order([5, 6, 7], [], -1, 2) == [6, 7, 5]


def test_neighbours_are_in_different_racks() -> None:
    assert order([1, 2, 3, 4], [], -1, 1, ("a", "a", "b", "b")) == [1, 3, 2, 4]


def test_leaders_of_partitions_take_turns() -> None:
    assert assignment([2, 3, 1], 4, 2) == [[2, 3], [3, 1], [1, 2], [2, 3]]
