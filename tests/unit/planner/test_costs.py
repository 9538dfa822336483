"""Costs: order statistics against chance, and waiting rules of the modes."""

from random import Random

import pytest

from tidelog.planner.costs import (
    Figures,
    at,
    followers_needed,
    latency_ms,
    longer,
    predict,
    quantiles,
    share_of,
    throughput,
    throughput_apart,
)
from tidelog.planner.promises import Terms

FIXED = Figures((0.5,) * 101, (0.0,) * 101, (0.2,) * 101, (1.0,) * 101, 0.002, 0.001, 0.002, 1.8, 0.0, 0.02)


@pytest.mark.parametrize(("rank", "count"), [(1, 1), (1, 2), (2, 2), (2, 4), (4, 4)])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_order_statistics_agree_with_chance(rank: int, count: int, share: float) -> None:
    chance = Random(5)
    drawn = sorted(sorted(chance.random() for _ in range(count))[rank - 1] for _ in range(20_000))
    assert share_of(rank, count, share) == pytest.approx(drawn[int(share * len(drawn))], abs=0.02)


def test_quantiles_and_what_lies_between() -> None:
    times = quantiles([float(each) for each in range(201)])
    assert (times[0], times[50], times[100]) == (0.0, 100.0, 200.0)
    assert at(times, 0.505) == pytest.approx(101.0)


def test_longer_is_never_negative_and_never_falls() -> None:
    assert longer((1.0, 5.0, 4.0), (2.0, 2.0, 3.0)) == (0.0, 3.0, 3.0)


NEEDED = [
    (Terms("isr", 3, min_in_sync=2), 2),  # all in-sync replicas, not the minimum
    (Terms("isr", 3, min_in_sync=2, acks="1"), 0),
    (Terms("primary-backup", 3, min_in_sync=2), 1),
    (Terms("primary-backup", 2, min_in_sync=1), 0),
    (Terms("quorum", 5, synced=True), 2),
    (Terms("quorum", 3, synced=True, acks="1"), 1),
]


@pytest.mark.parametrize(("terms", "expected"), NEEDED, ids=str)
def test_followers_that_a_write_waits_for(terms: Terms, expected: int) -> None:
    assert followers_needed(terms) == expected


def test_latency_is_the_round_trip_and_what_the_mode_waits_for() -> None:
    assert latency_ms(Terms("primary-backup", 2, min_in_sync=1), FIXED, 0.5) == pytest.approx(0.5)
    assert latency_ms(Terms("isr", 3), FIXED, 0.5) == pytest.approx(0.7)
    assert latency_ms(Terms("quorum", 3, synced=True), FIXED, 0.5) == pytest.approx(2.7), "one disk"


def test_followers_that_are_not_waited_for_cost_too() -> None:
    busy = FIXED._replace(beside_ms=(0.1,) * 101)
    assert latency_ms(Terms("primary-backup", 3, min_in_sync=1), busy, 0.5) == pytest.approx(0.7)


def test_the_slowest_of_all_is_slower_than_the_fastest_that_are_enough() -> None:
    spread = FIXED._replace(follower_ms=tuple(each / 100 for each in range(101)))
    isr, quorum = Terms("isr", 5, min_in_sync=3), Terms("quorum", 5)
    assert latency_ms(isr, spread, 0.99) > latency_ms(quorum, spread, 0.99)
    assert latency_ms(isr, spread, 0.5) == pytest.approx(0.5 + 0.5 ** (1 / 4), abs=1e-3)


def test_throughput_by_cores_and_by_disk() -> None:
    isr = Terms("isr", 3)
    assert throughput(isr, FIXED, 2) == pytest.approx(1.8 / (0.002 + 0.001 + 2 * 0.002))
    assert throughput(isr, FIXED, 1) == pytest.approx(1 / 0.007)
    assert throughput(isr._replace(synced=True), FIXED, 2) == pytest.approx(1 / (3 * 0.02))
    assert throughput_apart(isr, FIXED, 3) == pytest.approx(3 / 0.005)
    assert throughput_apart(isr._replace(synced=True), FIXED, 3) == pytest.approx(50)
    waiting = FIXED._replace(sync_s_per_mb=0.01, disk_s_per_mb=0.001)
    assert throughput(isr._replace(synced=True), waiting, 1) == pytest.approx(1 / 0.017)
    assert throughput_apart(isr._replace(synced=True), waiting, 3) == pytest.approx(1 / (0.005 / 3 + 0.01))


def test_the_range_is_that_of_the_rounds() -> None:
    rounds = [FIXED._replace(round_trip_ms=(each,) * 101) for each in (0.3, 0.9, 0.4)]
    found = predict(Terms("isr", 1, min_in_sync=1), rounds, 3, 2)
    assert found.p50_ms == (0.4, 0.3, 0.9)
