"""Search over settings: what satisfies needs, why others do not, and what could be given up."""

from itertools import combinations
from random import Random

import pytest

from tidelog.planner.faults import Faults, Placement
from tidelog.planner.model import moment, outcome
from tidelog.planner.needs import ANY, Needs, _tolerated_by_moving, in_words, metadata_lost, search
from tidelog.planner.outages import writes_go_on
from tidelog.planner.promises import Terms
from tidelog.types import majority
from unit.versions import FEW


def found(needs: Needs) -> list[str]:
    return [in_words(each.terms) for each in search(needs).candidates]


def test_the_exercise() -> None:
    """Five brokers, any two dead for writes and data: five replicas with three copies in both modes."""
    result = search(Needs(5, writes=2, data=2))
    assert [(each.terms.mode, each.terms.replicas, each.terms.copies) for each in result.candidates] == [
        ("isr", 5, 3),
        ("quorum", 5, 3),
        ("isr", 5, 3),
    ]
    assert {each.family for each in result.rejected} == {
        "primary-backup, 1 copy",
        "primary-backup, double write",
    }


def test_every_candidate_satisfies_the_needs_and_the_cheapest_is_first() -> None:
    needs = Needs(5, writes=1, reads=1, data=1, power=True)
    every = search(needs).candidates
    assert every
    assert all(each.writes >= 1 and each.reads >= 1 and each.data >= 1 and each.power for each in every)
    assert [each.cost for each in every] == sorted(each.cost for each in every)
    assert every[0].terms.replicas == 3
    assert every[0].terms.synced


def test_a_power_failure_of_all_needs_a_flush() -> None:
    assert all("flushed" in each for each in found(Needs(3, writes=1, data=1, power=True)))
    assert not all("flushed" in each for each in found(Needs(3, writes=1, data=1)))


def test_a_rejected_family_names_the_fault_that_stops_it() -> None:
    [reason] = [
        each.reason for each in search(Needs(3, writes=1, data=1)).rejected if "double" in each.family
    ]
    assert "no write is acknowledged when one of the brokers 1 and 2 is cut off or down" in reason


def test_impossible_needs_say_what_to_give_up() -> None:
    result = search(Needs(3, writes=2, data=2))
    assert not result.candidates
    assert result.give_up == ("--brokers 5 instead of 3",)


@pytest.mark.slow
def test_where_no_single_need_is_enough_several_are_named() -> None:
    """Two copies are no quorum, and two lost disks need five."""
    result = search(Needs(3, reads=2, data=2, replicas_max=2, mode="quorum"))
    assert result.give_up[0] == "--survive-data 1 instead of 2, and more than 2 copies of each record"
    assert result.give_up[1] == "--brokers 5 instead of 3, and more than 2 copies of each record"


def test_with_two_brokers_nothing_elects_without_the_other() -> None:
    """Both are controllers: without one of them there is no majority."""
    assert not search(Needs(2, writes=1)).candidates
    assert "--brokers 3 instead of 2" in search(Needs(2, writes=1)).give_up


def test_controllers_elsewhere_let_the_last_replica_go_on() -> None:
    assert not found(Needs(3, writes=2))
    assert (
        found(Needs(3, writes=2, separate_controllers=True))[0]
        == "isr with 3 replicas, min.insync.replicas=1"
    )


def test_producers_that_may_move_can_use_primary_backup() -> None:
    strict = {each.terms.mode for each in search(Needs(3, writes=1, data=1)).candidates}
    moving = {each.terms.mode for each in search(Needs(3, writes=1, data=1, order=ANY)).candidates}
    assert "primary-backup" not in strict
    assert "primary-backup" in moving


def test_a_disk_budget() -> None:
    assert all(each.terms.replicas <= 3 for each in search(Needs(5, writes=1, replicas_max=3)).candidates)


def test_words() -> None:
    assert in_words(Terms("quorum", 3, synced=True)) == "quorum with 3 replicas, flushed"


def _tolerated_by_trying(terms: Terms, brokers: int) -> int:
    """Every set of dead brokers is tried."""
    groups = [
        Placement(tuple((first + place) % brokers + 1 for place in range(terms.replicas)))
        for first in range(brokers)
    ]
    for size in range(1, brokers + 1):
        for dead in combinations(range(1, brokers + 1), size):
            faults = Faults(dead=frozenset(dead))
            if not any(writes_go_on(terms, moment(where, faults)) for where in groups):
                return size - 1
    return brokers


@pytest.mark.parametrize("brokers", range(1, 7))
def test_what_moving_producers_tolerate_is_the_same_as_by_trying(brokers: int) -> None:
    every = [
        Terms("primary-backup", replicas, copies)
        for replicas in range(1, brokers + 1)
        for copies in range(1, replicas + 1)
    ]
    by_trying = [_tolerated_by_trying(each, brokers) for each in every]
    assert [_tolerated_by_moving(each, brokers) for each in every] == by_trying


@pytest.mark.slow
def test_a_large_cluster_is_answered() -> None:
    """Trying every set of 20 of 50 brokers would take years."""
    [best, *_] = search(Needs(50, writes=20, order=ANY)).candidates
    assert best.terms.mode == "primary-backup"


def test_disks_of_controllers_count_as_well() -> None:
    """Two of three controllers without their data: no broker starts, whatever the third disk holds."""
    result = search(Needs(3, data=2))
    assert not result.candidates
    assert result.give_up[:2] == (
        "--survive-data 1 instead of 2",
        "--separate-controllers: controllers on machines of their own",
    )
    [isr] = [each.reason for each in result.rejected if each.family == "isr"]
    assert "the metadata of the cluster is lost when any 2 of the brokers 1, 2 and 3, which are the" in isr
    assert search(Needs(3, data=2, separate_controllers=True)).candidates
    assert search(Needs(5, data=2)).candidates


@pytest.mark.parametrize(
    ("brokers", "words"),
    [
        (1, "broker 1, which is the controller, loses its disk"),
        (2, "one of the brokers 1 and 2, which are the controllers, loses its disk"),
        (3, "any 2 of the brokers 1, 2 and 3, which are the controllers, lose their disks"),
    ],
)
def test_which_disks_take_the_metadata(brokers: int, words: str) -> None:
    assert metadata_lost(Terms("isr", 5, min_in_sync=5), Needs(brokers).placement(1)) == words


def test_records_that_are_lost_first_need_no_word_about_the_metadata() -> None:
    assert metadata_lost(Terms("quorum", 3, synced=True), Needs(3).placement(3)) == ""


def test_producers_that_may_move_pass_by_a_rack_without_power() -> None:
    needs = Needs(3, racks=3, racks_lost=1, data=1, mode="primary-backup")
    assert not search(needs).candidates
    assert search(needs._replace(order=ANY)).candidates
    # With both copies in one rack each, two racks of three are too many.
    assert not search(needs._replace(order=ANY, racks_lost=2)).candidates


def test_one_more_voter_is_one_more_reader() -> None:
    """An even number of voters survives no more for writes and data, but each one can serve readers alone
    when it knows that the others have ended. Tried with four brokers, three of them killed.
    """
    needs = Needs(4, writes=1, reads=3, mode="quorum")
    assert [each.terms.replicas for each in search(needs).candidates] == [4]
    usual = search(Needs(5, writes=1, mode="quorum")).candidates
    assert [each.terms.replicas for each in usual] == [3, 5]


def _promised_by_trying(terms: Terms, where: Placement, needs: Needs) -> list[str]:
    """Which needs the model breaks, with every set of faults."""
    brokers = range(1, needs.brokers + 1)

    def lost(*brokers: int, power: bool = False) -> Faults:
        hit = frozenset(brokers)
        late = frozenset(where.replicas[1:]) - hit
        return Faults(slow=late, power_lost=hit) if power else Faults(slow=late, disk_lost=hit)

    rows = (
        (
            "writes",
            needs.writes,
            lambda dead: outcome(terms, where, Faults(dead=frozenset(dead))).writes,
        ),
        ("reads", needs.reads, lambda dead: outcome(terms, where, Faults(dead=frozenset(dead))).reads),
        ("data", needs.data, lambda disks: not outcome(terms, where, lost(*disks)).loss),
    )
    broken = [
        name
        for name, number, holds in rows
        for size in range(number + 1)
        if not all(map(holds, combinations(brokers, size)))
    ]
    controllers = where.controllers
    if controllers and needs.data >= majority(len(controllers)):
        broken.append("metadata")
    if needs.power and outcome(terms, where, Faults(power_lost=frozenset(brokers))).loss:
        broken.append("power")
    for racks in combinations(where.rack_names, needs.racks_lost):
        off = frozenset(each for rack in racks for each in where.in_rack(rack))
        for leader in where.replicas:
            led = where._replace(replicas=(leader, *(each for each in where.replicas if each != leader)))
            late = frozenset(led.replicas[1:]) - off
            if not outcome(terms, led, Faults(power_lost=off)).writes:
                broken.append("writes without racks")
            if outcome(terms, led, Faults(slow=late, power_lost=off)).loss:
                broken.append("data without racks")
    return broken


@pytest.mark.parametrize("seed", range(15 if FEW else 60))
def test_what_is_offered_satisfies_the_needs_in_every_set_of_faults(seed: int) -> None:
    chance = Random(f"needs {seed}")
    brokers = chance.randint(1, 6)
    writes, reads, data = (chance.randint(0, min(2, brokers - 1)) for _ in range(3))
    racks = chance.choice((0, 0, chance.randint(1, brokers)))
    needs = Needs(
        brokers,
        writes,
        reads,
        data,
        power=chance.random() < 0.3,
        separate_controllers=chance.random() < 0.4,
        racks=racks,
        racks_lost=chance.randint(0, racks - 1) if racks else 0,
    )
    offered = search(needs)
    for each in offered.candidates[:6]:
        assert not _promised_by_trying(each.terms, each.where, needs), (needs, in_words(each.terms))
    assert offered.candidates or offered.give_up, needs


@pytest.mark.slow
def test_needs_of_a_thousand_brokers_are_answered() -> None:
    """Every smaller number was tried for every need: it did not end."""
    result = search(Needs(1000, writes=900, reads=900, data=900))
    assert not result.candidates
    assert result.give_up


def test_the_reason_is_no_single_partition_where_producers_move() -> None:
    result = search(Needs(5, writes=4, order=ANY, data=1, separate_controllers=True, mode="primary-backup"))
    [double] = [each.reason for each in result.rejected if "double" in each.family]
    assert "there may be no partition that takes writes" in double
