"""Years: the chain solved exactly, against Monte-Carlo and against what can be computed by hand."""

from functools import cache
from random import Random

import pytest

from tidelog.planner import racks as rack_sets
from tidelog.planner.faults import Placement
from tidelog.planner.promises import Terms
from tidelog.planner.racks import spread
from tidelog.planner.years import (
    HOURS_PER_YEAR,
    MINUTES_PER_YEAR,
    Chain,
    Rates,
    State,
    by_elimination,
    by_sweeps,
    stationary,
    years,
)

NONE = Rates(0, 1, 0, 1, 0, 0)


def test_a_single_replica_is_down_as_long_as_its_broker() -> None:
    rates = NONE._replace(broker_failures=10.0, broker_repair_h=2.0)
    found = years(Terms("isr", 1, min_in_sync=1), Placement((1,)), rates)
    down = 10.0 / (10.0 + HOURS_PER_YEAR / 2.0)
    assert found.write_minutes == pytest.approx(down * MINUTES_PER_YEAR)
    assert found.losses == 0


def test_a_single_replica_is_lost_with_its_disk() -> None:
    found = years(Terms("isr", 1, min_in_sync=1), Placement((1,)), NONE._replace(disk_losses=0.5))
    assert found.losses == pytest.approx(0.5, rel=1e-3)


def test_without_flushing_a_power_failure_of_all_is_a_loss() -> None:
    power = NONE._replace(site_failures=0.2)
    assert years(Terms("isr", 3), Placement((1, 2, 3)), power).losses == pytest.approx(0.2, rel=1e-2)
    assert years(Terms("isr", 3, synced=True), Placement((1, 2, 3)), power).losses == 0


def test_a_leader_that_is_left_alone_loses_more_than_two_copies() -> None:
    """Two brokers of three that are down take the controllers with them, and nobody leaves the in-sync set.
    But one that is back votes, and need not have caught up: both had the same figure.
    """
    where = Placement((1, 2, 3), (1, 2, 3))
    one = years(Terms("isr", 3, min_in_sync=1, synced=True), where, Rates()).losses
    two = years(Terms("isr", 3, min_in_sync=2, synced=True), where, Rates()).losses
    assert one > 1000 * two
    # Its disk is away for six hours, and the power of all brokers fails meanwhile.
    assert one == pytest.approx(3 * 0.015 * 6 / HOURS_PER_YEAR * 0.2, rel=0.2)


def test_more_copies_lose_less_and_more_voters_stop_less() -> None:
    def of(terms: Terms) -> float:
        return years(terms, Placement(tuple(range(1, terms.replicas + 1))), Rates()).losses

    one, two = Terms("isr", 3, min_in_sync=1, synced=True), Terms("isr", 3, min_in_sync=2, synced=True)
    three, five = Terms("quorum", 3, synced=True), Terms("quorum", 5, synced=True)
    assert of(one) > of(two)
    assert of(three) > of(five)


def test_controllers_without_a_replica_fail_too() -> None:
    """Two replicas on three controllers: any two of the three stop writes, as with three voters."""
    rates = NONE._replace(broker_failures=10.0)
    three = (1, 2, 3)
    two = years(Terms("isr", 2, min_in_sync=1), Placement((1, 2), three), rates)
    voters = years(Terms("quorum", 3), Placement(three, three), rates)
    assert two.write_minutes == pytest.approx(voters.write_minutes)


def test_rare_events_keep_their_digits() -> None:
    """Two states, a chance of 1e-14."""
    share = stationary([[0.0, 1e-10], [1e4, 0.0]])
    assert share[1] == pytest.approx(1e-14, rel=1e-9)


def simulated(chain: Chain, steps: int, seed: int) -> tuple[float, float]:
    """(losses per year, minutes per year without writes), by chance."""
    chance = Random(seed)
    state = chain.all_up
    at, stopped, losses = 0.0, 0.0, 0.0

    @cache
    def known(state: State) -> tuple[list[tuple[float, State]], float, bool, float]:
        ways = [(event.rate, event.target) for event in chain.events(state)]
        return ways, sum(rate for rate, _ in ways), chain.outcome(state).writes, chain.losing(state)

    for _ in range(steps):
        ways, total, writes, losing = known(state)
        stay = chance.expovariate(total)
        at += stay
        stopped += 0.0 if writes else stay
        losses += stay * losing
        pick = chance.uniform(0, total)
        for rate, target in ways:
            pick -= rate
            if pick <= 0:
                state = target
                break
    return losses / at, MINUTES_PER_YEAR * stopped / at


SPREAD = [
    (Terms("isr", 3, min_in_sync=2), ()),
    (Terms("isr", 3, min_in_sync=2), spread(3, 2)),
    (Terms("quorum", 3, synced=True), ()),
    (Terms("quorum", 3, synced=True), spread(3, 2)),
    (Terms("primary-backup", 2, min_in_sync=2), spread(2, 1)),
]


@pytest.mark.parametrize(("terms", "racks"), SPREAD, ids=str)
def test_monte_carlo_agrees(terms: Terms, racks: tuple[tuple[int, str], ...]) -> None:
    """With failures so frequent that they can be counted."""
    rates = Rates(300.0, 8.0, 40.0, 20.0, 50.0, 10.0)
    where = Placement(tuple(range(1, terms.replicas + 1)), racks=racks)
    exact = years(terms, where, rates)
    losses, minutes = simulated(Chain(terms, where, rates), 60_000, 7)
    assert losses == pytest.approx(exact.losses, rel=0.05)
    assert minutes == pytest.approx(exact.write_minutes, rel=0.05)


@pytest.mark.parametrize("synced", [False, True])
@pytest.mark.parametrize("racks", [1, 2, 3])
@pytest.mark.parametrize("mode", ["isr", "primary-backup", "quorum"])
def test_racks_agree_with_the_sets_of_racks(mode: str, racks: int, synced: bool) -> None:
    """Only racks fail: what the fault sets say of one rack is what a year has of it."""
    terms = Terms(mode, 3, min_in_sync=2, synced=synced)
    where = Placement((1, 2, 3), racks=spread(3, racks))
    # A rack that is back at once fails alone.
    found = years(terms, where, NONE._replace(rack_failures=1.0, broker_repair_h=1e-6))
    losing = [
        each for each in rack_sets.losing(terms, where) if len(each.racks) == 1 and not each.others_slow
    ]
    assert (found.losses > 1e-3) == bool(losing)


def test_one_rack_for_all_stops_writes_as_often_as_it_fails() -> None:
    rates = NONE._replace(rack_failures=1.0, broker_repair_h=10.0)
    terms = Terms("quorum", 3, synced=True)
    together = years(terms, Placement((1, 2, 3), racks=spread(3, 1)), rates)
    apart = years(terms, Placement((1, 2, 3), racks=spread(3, 3)), rates)
    assert together.write_minutes > 100 * apart.write_minutes


def test_what_is_lost_without_any_fault_is_lost_for_certain() -> None:
    """It was called "never": no event leads from a state without a loss to one with a loss."""
    found = years(Terms("isr", 3, acks="0"), Placement((1, 2, 3)), Rates())
    assert found.loss_probability == 1
    assert found.write_minutes < 60


@pytest.mark.parametrize(
    "rates", [Rates(), Rates(300.0, 8.0, 40.0, 20.0, 50.0, 10.0), NONE._replace(disk_losses=0.001)], ids=str
)
def test_sweeps_and_elimination_agree_in_all_digits(rates: Rates) -> None:
    terms = Terms("quorum", 5, synced=True)
    matrix = Chain(terms, Placement((1, 2, 3, 4, 5), (1, 2, 3, 4, 5), spread(5, 3)), rates).matrix()
    swept = by_sweeps(matrix)
    assert swept is not None
    assert swept == pytest.approx(by_elimination(matrix), rel=1e-9, abs=0)


@pytest.mark.slow
def test_seven_replicas_in_racks_do_not_take_minutes() -> None:
    """2,187 states: an elimination takes minutes."""
    where = Placement(tuple(range(1, 8)), (1, 2, 3, 4, 5), spread(7, 4))
    found = years(Terms("quorum", 7, synced=True), where, Rates())
    assert 0 < found.losses < 1e-6
    assert found.write_minutes > 0


def test_lost_disks_by_hand() -> None:
    """Two of three disks within the six hours that one is away; both disks of a double write; the leader's
    disk while the other broker is down.
    """
    rates = NONE._replace(disk_losses=0.1, disk_repair_h=6.0)
    away = 6.0 / HOURS_PER_YEAR

    def losses(terms: Terms, rates: Rates) -> float:
        return years(terms, Placement(tuple(range(1, terms.replicas + 1))), rates).losses

    quorum = losses(Terms("quorum", 3, synced=True), rates)
    assert quorum == pytest.approx(3 * 0.1 * away * 2 * 0.1, rel=1e-2)
    double = losses(Terms("primary-backup", 2, synced=True), rates)
    assert double == pytest.approx(2 * 0.1 * away * 0.1, rel=1e-2)
    # A disk is lost while the other broker is down, or that one goes down within the six hours.
    down = NONE._replace(disk_losses=1e-6, disk_repair_h=6.0, broker_failures=1.0, broker_repair_h=10.0)
    share = 10.0 / HOURS_PER_YEAR
    alone = losses(Terms("isr", 2, min_in_sync=1, synced=True), down)
    assert alone == pytest.approx(2 * 1e-6 * (share + 6.0 / HOURS_PER_YEAR), rel=1e-2)
