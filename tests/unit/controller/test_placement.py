"""Where replicas go: distinct, even, and refused when a user's own placement makes no sense."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.placement import check_manual, spread
from tidelog.errors import ErrorCode, TidelogError

broker_sets = st.sets(st.integers(0, 1000), min_size=1, max_size=9).map(list)


@st.composite
def placements(draw: st.DrawFn) -> tuple[list[int], int, list[list[int]]]:
    brokers = draw(broker_sets)
    replicas = draw(st.integers(1, len(brokers)))
    partitions = draw(st.integers(1, 60))
    first, start = draw(st.integers(0, 20)), draw(st.integers(0, 50))
    return brokers, replicas, spread(brokers, partitions, replicas, first_partition=first, start=start)


class TestSpread:
    @given(placed=placements())
    def test_every_partition_has_its_replicas_on_different_brokers(
        self, placed: tuple[list[int], int, list[list[int]]]
    ) -> None:
        brokers, replicas, assignments = placed
        for assignment in assignments:
            assert len(assignment) == len(set(assignment)) == replicas
            assert set(assignment) <= set(brokers)

    @given(placed=placements())
    def test_leaders_are_even_within_one(self, placed: tuple[list[int], int, list[list[int]]]) -> None:
        brokers, _, assignments = placed
        leads = Counter(dict.fromkeys(brokers, 0)) + Counter()
        leads.update(assignment[0] for assignment in assignments)
        counts = [leads[broker] for broker in brokers]
        assert max(counts) - min(counts) <= 1

    @given(brokers=broker_sets, rounds=st.integers(1, 5), data=st.data())
    def test_whole_rounds_give_every_broker_the_same(
        self, brokers: list[int], rounds: int, data: st.DataObject
    ) -> None:
        replicas = data.draw(st.integers(1, len(brokers)))
        start = len(brokers) * data.draw(st.integers(0, 9))
        assignments = spread(brokers, rounds * len(brokers), replicas, first_partition=0, start=start)
        held = Counter(broker for assignment in assignments for broker in assignment)
        assert set(held.values()) == {rounds * replicas}

    @pytest.mark.parametrize("count", [2, 3, 5, 8])
    def test_the_followers_of_one_leader_are_all_the_others(self, count: int) -> None:
        """When a broker dies, everybody takes over the same share of what it led."""
        assignments = spread(range(count), count * (count - 1), 2, first_partition=0, start=0)
        for leader in range(count):
            heirs = Counter(followers[0] for first, *followers in assignments if first == leader)
            assert heirs == dict.fromkeys(set(range(count)) - {leader}, 1)

    @given(brokers=broker_sets, cut=st.integers(0, 20), start=st.integers(0, 20), data=st.data())
    def test_growing_later_is_like_having_been_larger(
        self, brokers: list[int], cut: int, start: int, data: st.DataObject
    ) -> None:
        replicas = data.draw(st.integers(1, len(brokers)))
        whole = spread(brokers, 20, replicas, first_partition=0, start=start)
        first = spread(brokers, cut, replicas, first_partition=0, start=start)
        rest = spread(brokers, 20 - cut, replicas, first_partition=cut, start=start)
        assert first + rest == whole

    @pytest.mark.parametrize(("brokers", "replicas"), [([], 1), ([1], 2), ([1, 2, 3], 4)])
    def test_more_replicas_than_brokers(self, brokers: list[int], replicas: int) -> None:
        with pytest.raises(TidelogError, match="larger than the number of brokers") as refusal:
            spread(brokers, 1, replicas, first_partition=0, start=0)
        assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


class TestManual:
    def test_is_taken_as_it_is(self) -> None:
        assert check_manual({1: [3, 1], 0: (2, 1)}, [1, 2, 3], first_partition=0) == [[2, 1], [3, 1]]
        assert check_manual({5: [1]}, [1], first_partition=5) == [[1]]

    @pytest.mark.parametrize(
        ("assignments", "reason"),
        [
            ({1: [1]}, "without gaps"),
            ({0: [1], 2: [1]}, "without gaps"),
            ({-1: [1], 0: [1]}, "without gaps"),
            ({0: []}, "no replicas"),
            ({0: [1, 1]}, "twice"),
            ({0: [1], 1: [1, 2]}, "1 has 2 replicas, the others have 1"),
            ({0: [1, 9]}, r"do not exist: \[9\]"),
        ],
    )
    def test_refusals(self, assignments: dict[int, list[int]], reason: str) -> None:
        with pytest.raises(TidelogError, match=reason) as refusal:
            check_manual(assignments, [1, 2, 3], first_partition=0)
        assert refusal.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_new_partitions_have_as_many_copies_as_the_old_ones(self) -> None:
        with pytest.raises(TidelogError, match="the others have 2"):
            check_manual({3: [1]}, [1, 2], first_partition=3, replicas=2)
