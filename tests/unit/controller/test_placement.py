"""Where replicas go: distinct, even, and refused when a user's own placement makes no sense."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.placement import Site, check_manual, spread
from tidelog.errors import ErrorCode, TidelogError

broker_sets = st.sets(st.integers(0, 1000), min_size=1, max_size=8).map(sorted)


def sites(*brokers: int) -> list[Site]:
    return [Site(broker) for broker in brokers]


def difference(counts: Counter[int], brokers: Iterable[int]) -> int:
    """Between the broker with most and the one with least."""
    values = [counts[broker] for broker in brokers]
    return max(values) - min(values)


@st.composite
def placements(draw: st.DrawFn) -> tuple[list[int], int, list[list[int]]]:
    brokers = draw(broker_sets)
    replicas = draw(st.integers(1, len(brokers)))
    partitions = draw(st.integers(1, 60))
    elsewhere = draw(st.lists(st.permutations(brokers), max_size=5))
    return brokers, replicas, spread(sites(*brokers), partitions, replicas, elsewhere=elsewhere)


Placed = tuple[list[int], int, list[list[int]]]


class TestSpread:
    @given(placed=placements())
    def test_every_partition_has_its_replicas_on_different_brokers(self, placed: Placed) -> None:
        brokers, replicas, assignments = placed
        for assignment in assignments:
            assert len(assignment) == len(set(assignment)) == replicas
            assert set(assignment) <= set(brokers)

    @given(placed=placements())
    def test_leaders_are_even_within_one_and_replicas_within_two(self, placed: Placed) -> None:
        brokers, _, assignments = placed
        assert difference(Counter(assignment[0] for assignment in assignments), brokers) <= 1
        assert (
            difference(Counter(broker for assignment in assignments for broker in assignment), brokers) <= 2
        )

    @pytest.mark.parametrize("count", [2, 3, 5, 8])
    def test_the_followers_of_one_leader_are_all_the_others(self, count: int) -> None:
        """When a broker dies, everybody takes over about the same share of what it led."""
        assignments = spread(sites(*range(count)), 4 * count * (count - 1), 3 if count > 2 else 2)
        for leader in range(count):
            heirs = Counter(each[1] for each in assignments if each[0] == leader)
            assert difference(heirs, set(range(count)) - {leader}) <= 2

    @given(brokers=broker_sets, cut=st.integers(0, 20), data=st.data())
    def test_growing_later_is_like_having_been_larger(
        self, brokers: list[int], cut: int, data: st.DataObject
    ) -> None:
        replicas = data.draw(st.integers(1, len(brokers)))
        whole = spread(sites(*brokers), 20, replicas)
        first = spread(sites(*brokers), cut, replicas)
        assert first + spread(sites(*brokers), 20 - cut, replicas, topic=first) == whole

    def test_the_brokers_with_least_get_the_next_topic(self) -> None:
        elsewhere = [[1, 2], [1, 2], [2, 1]]
        assert spread(sites(1, 2, 3), 1, 2, elsewhere=elsewhere) == [[3, 1]]

    @pytest.mark.parametrize(("brokers", "replicas"), [([], 1), ([1], 2), ([1, 2, 3], 4)])
    def test_more_replicas_than_brokers(self, brokers: list[int], replicas: int) -> None:
        with pytest.raises(TidelogError, match="larger than the number of brokers") as refusal:
            spread(sites(*brokers), 1, replicas)
        assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


class TestBrokersThatAreAway:
    away = (Site(1, serves=False, may_lead=False), Site(2), Site(3))

    def test_get_replicas_only_when_there_are_too_few_others(self) -> None:
        assert {broker for replicas in spread(self.away, 6, 2) for broker in replicas} == {2, 3}
        assert all(len(replicas) == 3 for replicas in spread(self.away, 6, 3))

    def test_are_nobodys_first_replica(self) -> None:
        assert {replicas[0] for replicas in spread(self.away, 6, 3)} == {2, 3}

    def test_somebody_must_be_there(self) -> None:
        with pytest.raises(TidelogError) as refusal:
            spread([Site(1, serves=False)], 1, 1)
        assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR

    def test_a_drained_broker_follows_like_the_others_and_leads_nothing(self) -> None:
        drained = [Site(1, may_lead=False), Site(2), Site(3)]
        placed = spread(drained, 6, 2)
        assert Counter(replicas[0] for replicas in placed) == {2: 3, 3: 3}
        assert 1 in {broker for replicas in placed for broker in replicas}

    def test_when_all_are_drained_somebody_leads_all_the_same(self) -> None:
        assert spread([Site(1, may_lead=False)], 1, 1) == [[1]]


class TestRacks:
    @given(
        racks=st.lists(st.sampled_from("abcd"), min_size=1, max_size=8),
        partitions=st.integers(1, 30),
        data=st.data(),
    )
    def test_replicas_are_on_as_many_racks_as_there_can_be(
        self, racks: list[str], partitions: int, data: st.DataObject
    ) -> None:
        replicas = data.draw(st.integers(1, len(racks)))
        placed = spread([Site(broker, rack) for broker, rack in enumerate(racks)], partitions, replicas)
        for assignment in placed:
            assert len({racks[broker] for broker in assignment}) == min(replicas, len(set(racks)))

    @given(size=st.integers(1, 3), count=st.integers(2, 4), data=st.data())
    def test_equal_racks_leave_the_spread_even(self, size: int, count: int, data: st.DataObject) -> None:
        brokers = [Site(number, f"rack-{number % count}") for number in range(size * count)]
        partitions, replicas = data.draw(st.integers(1, 40)), data.draw(st.integers(1, count))
        placed = spread(brokers, partitions, replicas)
        every = range(len(brokers))
        assert difference(Counter(assignment[0] for assignment in placed), every) <= 1
        assert difference(Counter(broker for assignment in placed for broker in assignment), every) <= 3

    def test_brokers_without_a_rack_stand_together(self) -> None:
        brokers = [Site(1, "a"), Site(2), Site(3)]
        assert all(1 in replicas for replicas in spread(brokers, 6, 2))


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
