"""A cluster as it is, and what faults would add."""

from collections.abc import Callable

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.plan.applying import weaker_here
from tidelog.cli.plan.live import check_known, usual_place, weakest
from tidelog.planner.faults import Faults, Placement
from tidelog.planner.needs import Needs, assess
from tidelog.planner.promises import Terms
from tidelog.planner.what_if import Live, Place, changes, summary, warning, with_more, worst

ALL = frozenset({1, 2, 3})

MakeFaults = Callable[[frozenset[int]], Faults]


def place(topic: str, terms: Terms, replicas: tuple[int, ...], in_sync: frozenset[int] = ALL) -> Place:
    return Place(topic, 0, terms, Placement(replicas, (1, 2, 3)), replicas[0], in_sync)


def cluster(*places: Place, away: frozenset[int] = frozenset()) -> Live:
    return Live((1, 2, 3), away, (1, 2, 3), places)


def test_brokers_that_are_down_already_count() -> None:
    orders = place("orders", Terms("isr", 3, min_in_sync=2), (1, 2, 3), frozenset({1, 2}))
    [change] = changes(cluster(orders, away=frozenset({3})), Faults(dead=frozenset({2})))
    assert change.row()["writes"] == "stop"
    assert change.below_minimum
    [now] = changes(cluster(orders, away=frozenset({3})), Faults())
    assert now.row()["writes"] == "go on"


def test_what_has_stopped_already_is_said() -> None:
    double = place("double", Terms("primary-backup", 2, min_in_sync=2), (1, 2), frozenset({2}))
    [change] = changes(cluster(double, away=frozenset({1})), Faults(dead=frozenset({3})))
    assert change.row()["writes"] == "stopped already"


def test_controllers_that_are_gone_already_count() -> None:
    orders = place("orders", Terms("isr", 3, min_in_sync=2), (1, 2, 3))
    there = Live((1, 2, 3), frozenset({4}), (4,), (orders._replace(where=Placement((1, 2, 3), (4,))),), False)
    [change] = changes(there, Faults(dead=frozenset({1})))
    assert change.row()["writes"] == "stop"  # nobody can appoint another leader


class TestFrozen:
    """Two of three controllers are down. The third broker serves readers only if it knows that both ended: a
    connection to a frozen machine, or to one that is off, is not refused. Tried with one that got SIGSTOP and
    another one that was killed: reads had been promised, and no broker served them.
    """

    ORDERS = place("orders", Terms("isr", 3, min_in_sync=2), (1, 2, 3), frozenset({1, 2}))

    @pytest.mark.parametrize(("frozen", "reads"), [(frozenset(), "go on"), (frozenset({3}), "stop")])
    def test_readers(self, frozen: frozenset[int], reads: str) -> None:
        there = cluster(self.ORDERS, away=frozenset({3}))._replace(frozen=frozen)
        [change] = changes(there, Faults(dead=frozenset({2})))
        assert change.row()["reads"] == reads
        assert change.row()["loss"] == "none"

    def test_its_disk_counts_as_intact(self) -> None:
        """It may have lost power or not: what is lost is asked with --lost-power."""
        log = place("log", Terms("primary-backup", 2, min_in_sync=1), (3, 1), frozenset({3, 1}))
        there = cluster(log, away=frozenset({3}))._replace(frozen=frozenset({3}))
        [change] = changes(there, Faults())
        assert (change.row()["writes"], change.row()["loss"]) == ("stopped already", "none")
        [change] = changes(there, Faults(power_lost=frozenset({3})))
        assert change.row()["loss"] != "none"

    def test_controllers_elsewhere(self) -> None:
        orders = self.ORDERS._replace(where=Placement((1, 2, 3), (4,)), in_sync=ALL)
        there = Live((1, 2, 3), frozenset({4}), (4,), (orders,), decided=False)
        killed = Faults(dead=frozenset({1}))
        assert changes(there, killed)[0].row()["reads"] == "go on"
        assert changes(there._replace(frozen=frozenset({4})), killed)[0].row()["reads"] == "stop"


def test_a_disk_that_is_the_only_one_with_a_record() -> None:
    log = place("log", Terms("primary-backup", 2, min_in_sync=1), (1, 2))
    [change] = changes(cluster(log), Faults(disk_lost=frozenset({1})))
    assert change.row()["loss"] != "none"


def test_the_worst_broker_and_the_worst_pair() -> None:
    places = [place(f"t{n}", Terms("primary-backup", 2, min_in_sync=1), (2, 3)) for n in range(3)]
    places.append(place("u", Terms("primary-backup", 2, min_in_sync=1), (1, 3)))
    single, pair = worst(cluster(*places), 1), worst(cluster(*places), 2)
    assert single is not None
    assert (single.brokers, single.writes) == ((2,), 3)
    assert pair is not None
    assert (pair.brokers, pair.writes) == ((1, 2), 4)
    assert single.words().startswith("broker 2 down: writes stop in 3 partitions")


def test_unknown_brokers_are_refused() -> None:
    with pytest.raises(CommandFailed, match="does not have brokers 7 and 8"):
        check_known(cluster(), Faults(dead=frozenset({7, 8})))


def test_a_stop_that_would_be_noticed_is_announced() -> None:
    double = place("double", Terms("primary-backup", 2, min_in_sync=2), (1, 2))
    orders = place("orders", Terms("isr", 3, min_in_sync=2), (1, 2, 3))
    assert "writes stop in double-0;" in warning(cluster(double, orders), 2)
    assert warning(cluster(orders), 2) == ""


def test_a_warning_names_the_topics_of_users_first() -> None:
    offsets = [
        Place("__consumer_offsets", n, Terms("isr", 2, min_in_sync=2), Placement((1, 2), (1, 2, 3)), 1, ALL)
        for n in range(50)
    ]
    double = place("double", Terms("primary-backup", 2, min_in_sync=2), (1, 2))
    said = warning(cluster(*offsets, double), 2)
    assert "writes stop in double-0 and 50 partitions of __consumer_offsets;" in said


def test_a_partition_without_a_leader_has_no_number_for_it() -> None:
    double = place("double", Terms("primary-backup", 2, min_in_sync=2), (1, 2))._replace(leader=-1)
    [change] = changes(cluster(double), Faults())
    assert change.row()["leader"] is None


def test_all_partitions_in_one_sentence() -> None:
    double = place("double", Terms("primary-backup", 2, min_in_sync=1), (1, 2))
    orders = place("orders", Terms("isr", 3, min_in_sync=2), (1, 2, 3))
    both = cluster(double, orders)
    assert summary(changes(both, Faults(disk_lost=frozenset({1})))) == (
        "Of 2 partitions: writes stop in 1, reads in 0; acknowledged records may be lost in 1."
    )
    assert summary(changes(both, Faults(dead=frozenset({3})))) == (
        "Of 2 partitions: writes and reads go on wherever they do now; no acknowledged record is lost."
    )


def test_where_no_broker_stops_anything_none_is_the_worst() -> None:
    orders = place("orders", Terms("isr", 3, min_in_sync=2), (1, 2, 3))
    single = worst(cluster(orders), 1)
    assert single is not None
    assert single.words() == "none stops anything"


def slow(numbers: frozenset[int]) -> Faults:
    return Faults(slow=numbers)


def cut_off(numbers: frozenset[int]) -> Faults:
    return Faults(cut_off=numbers)


@pytest.mark.parametrize("milder", [slow, cut_off])
def test_a_broker_that_is_down_does_not_come_back_with_a_milder_fault(milder: MakeFaults) -> None:
    double = cluster(place("double", Terms("primary-backup", 2, min_in_sync=2), (1, 2)), away=frozenset({2}))
    [change] = changes(double, milder(frozenset({2})))
    assert change.row()["writes"] == "stopped already"
    orders = place("orders", Terms("isr", 3, min_in_sync=1), (1, 2, 3))
    [change] = changes(cluster(orders, away=frozenset({1, 2})), milder(frozenset({1})))
    assert change.row()["writes"] == "stopped already"


def test_a_broker_that_ended_and_has_no_power_is_not_known_to_have_ended() -> None:
    before, more = Faults(dead=frozenset({1, 2})), Faults(power_lost=frozenset({1}), disk_lost=frozenset({2}))
    assert with_more(before, more) == Faults(power_lost=frozenset({1}), disk_lost=frozenset({2}))


def test_the_worst_pair_of_a_large_cluster_is_found() -> None:
    brokers = tuple(range(1, 61))
    places = tuple(
        Place(
            "t", n, Terms("isr", 3), Placement((n, n % 60 + 1, (n + 1) % 60 + 1), (1, 2, 3)), n, frozenset()
        )
        for n in brokers
    )
    places = tuple(each._replace(in_sync=frozenset(each.where.replicas)) for each in places)
    pair = worst(Live(brokers, frozenset(), (1, 2, 3), places), 2)
    assert pair is not None
    assert (len(pair.brokers), pair.writes > 1) == (2, True)


RACKS = ((1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "b"), (6, "c"))


def test_the_weakest_partition_is_shown() -> None:
    """Both have three replicas; one has them all in one rack."""
    terms = Terms("isr", 3, min_in_sync=2)
    spread_out = Place("t", 0, terms, Placement((1, 4, 6), (7, 8, 9), RACKS), 1, ALL)
    together = spread_out._replace(partition=1, where=Placement((1, 2, 3), (7, 8, 9), RACKS))
    place, promised = weakest([spread_out, together])
    assert (place.partition, promised.racks) == (1, 0)
    fewer = spread_out._replace(partition=2, terms=terms._replace(replicas=2), where=Placement((1, 4), (7,)))
    assert weakest([spread_out, together, fewer])[0].partition == 2


def test_ten_thousand_partitions_are_a_few_different_ones() -> None:
    brokers = range(1, 51)
    racks = tuple((each, str(each % 3)) for each in brokers)
    terms = Terms("isr", 3, min_in_sync=2)
    places = [
        Place(
            "t", n, terms, Placement(tuple((n * 7 + k) % 50 + 1 for k in range(3)), (1, 2, 3), racks), 1, ALL
        )
        for n in range(10_000)
    ]
    assert weakest(places)[0].topic == "t"


def test_a_new_topic_is_expected_in_different_racks() -> None:
    live = Live((1, 2, 3, 4, 5, 6), frozenset(), (1, 2, 3), (), racks=RACKS)
    assert usual_place(live, 3).replicas == (1, 4, 6)
    assert usual_place(live._replace(racks=()), 3).replicas == (1, 2, 3)


def test_apply_says_what_a_smaller_cluster_does_not_keep() -> None:
    """Two dead brokers of three take the controllers with them, two of five do not."""
    needs = Needs(5, writes=2)
    plan = assess(Terms("isr", 3, min_in_sync=1), needs.placement(3))
    small = Live((1, 2, 3), frozenset(), (1, 2, 3), ())
    assert weaker_here(small, "t", plan) == ["dead brokers for writes: 1 instead of 2"]
    large = Live((1, 2, 3, 4, 5), frozenset(), (1, 2, 3, 4, 5), ())
    assert weaker_here(large, "t", plan) == []
    # Of a topic that exists, its own placement counts.
    racked = assess(plan.terms._replace(min_in_sync=2), Needs(6, racks=3).placement(3))
    there = Place("t", 0, Terms("isr", 3), Placement((1, 2, 3), (1, 4, 6), RACKS), 1, ALL)
    assert weaker_here(large._replace(places=(there,)), "t", racked) == [
        "racks without power: 0 instead of 1"
    ]
