"""Plans that move replicas: even, on different racks, and no more than needed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.cluster.admin import Partition
from tidelog.cli.failure import CommandFailed
from tidelog.cli.topic.reassign_plan import Move, plan


def partitions(*replicas: list[int]) -> list[Partition]:
    return [Partition("t", number, each[0], each, each) for number, each in enumerate(replicas)]


def after(before: list[Partition], moves: list[Move]) -> list[list[int]]:
    moved = {move.partition: move.after for move in moves}
    return [moved.get(each.partition, each.replicas) for each in before]


def racks(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def difference(counts: Counter[int], brokers: dict[int, str | None]) -> int:
    values = [counts[broker] for broker in brokers]
    return max(values) - min(values)


def test_what_is_even_stays() -> None:
    assert plan(partitions([1, 2], [2, 3], [3, 1]), racks(1, 2, 3)) == []


def test_a_broker_that_is_not_wanted_is_left() -> None:
    before = partitions([1, 2], [2, 3], [3, 1])
    moves = plan(before, racks(2, 3, 4))
    assert all(1 not in move.after for move in moves)
    assert sum(len(move.copied) for move in moves) == 2


def test_a_new_broker_gets_its_share_and_nobody_else_moves() -> None:
    before = partitions(*([[1, 2, 3]] * 8))
    moves = plan(before, racks(1, 2, 3, 4))
    held = Counter(broker for replicas in after(before, moves) for broker in replicas)
    assert held == {1: 6, 2: 6, 3: 6, 4: 6}
    assert sum(len(move.copied) for move in moves) == 6


def test_more_and_fewer_copies() -> None:
    before = partitions([1, 2], [2, 1])
    assert {len(move.after) for move in plan(before, racks(1, 2, 3), 3)} == {3}
    fewer = plan(before, racks(1, 2, 3), 1)
    assert [len(move.after) for move in fewer] == [1, 1]
    assert sum(len(move.copied) for move in fewer) == 0


def test_copies_that_are_in_sync_stay_first() -> None:
    behind = Partition("t", 0, 2, [1, 2, 3], [2, 3])
    (move,) = plan([behind], racks(1, 2, 3), 2)
    assert set(move.after) == {2, 3}


def test_too_few_brokers() -> None:
    with pytest.raises(CommandFailed, match="3 replicas need 3 brokers, and there are 2"):
        plan(partitions([1, 2, 3]), racks(1, 2))


def test_copies_on_one_rack_part() -> None:
    before = partitions([1, 2], [3, 4])
    sites: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    for replicas in after(before, plan(before, sites)):
        assert {sites[broker] for broker in replicas} == {"a", "b"}


@given(
    before=st.integers(1, 3).flatmap(
        lambda count: st.lists(st.permutations(range(1, 7)).map(lambda order: order[:count]), min_size=1)
    ),
    brokers=st.sets(st.integers(1, 9), min_size=3),
)
def test_any_plan_is_even_and_stays_so(before: list[list[int]], brokers: set[int]) -> None:
    sites = racks(*sorted(brokers))
    moves = plan(partitions(*before), sites)
    result = after(partitions(*before), moves)
    assert all(len(set(replicas)) == len(replicas) == len(before[0]) for replicas in result)
    assert {broker for replicas in result for broker in replicas} <= brokers
    assert difference(Counter(broker for replicas in result for broker in replicas), sites) <= 1
    assert plan(partitions(*result), sites) == []


def test_too_few_brokers_are_explained_by_those_that_are_not_up() -> None:
    with pytest.raises(CommandFailed, match="and broker 1 is fenced: `tidelog cluster status` says why"):
        plan(partitions([1, 2, 3]), racks(2, 3), fenced={1})
