"""What settings cost: latency and throughput, from figures that were measured on one machine.

Latency of a lone write: the round trip to a leader, and then what the mode waits for. Each replica's time is
a distribution; the mode's waiting rule is one of its order statistics, whose quantiles follow from the
binomial distribution. ``isr`` waits for the slowest of all, ``quorum`` and ``primary-backup`` for the fastest
that are enough.

Throughput: the CPU that a megabyte costs its client, its leader and each follower, and the time that a
megabyte needs to get to disk. Replicas on one machine share its cores and its disk: the followers' syncs come
one after the other there.
"""

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import NamedTuple

from tidelog.planner.promises import RULES, Terms

Times = tuple[float, ...]
"""Milliseconds: the quantiles 0 %, 1 %, … 100 %."""

STEPS = 100


class Figures(NamedTuple):
    """One round of measurements on one machine."""

    round_trip_ms: Times  # a lone write to a leader without followers
    beside_ms: Times  # how much longer if a follower fetches it that is not waited for
    follower_ms: Times  # how much longer again if it is waited for
    sync_ms: Times  # how much longer if the leader syncs it
    client_cpu_s_per_mb: float
    leader_cpu_s_per_mb: float
    follower_cpu_s_per_mb: float  # of a follower, and of its leader for it
    busy_cores: float  # what all processes together got of the machine
    sync_s_per_mb: float  # how much longer a megabyte takes if it is synced
    disk_s_per_mb: float  # that the disk needs for it, without any broker


class Cost(NamedTuple):
    p50_ms: float
    p99_ms: float
    mb_per_s: float  # all brokers and the client on this machine
    mb_per_s_apart: float  # every broker on a machine like this one, the clients on others


class Range(NamedTuple):
    """Of the rounds: the middle one, the lowest, the highest."""

    middle: float
    low: float
    high: float


class Predicted(NamedTuple):
    p50_ms: Range
    p99_ms: Range
    mb_per_s: Range
    mb_per_s_apart: Range


def quantiles(samples: Sequence[float]) -> Times:
    ordered = sorted(samples)
    last = len(ordered) - 1
    return tuple(ordered[round(last * step / STEPS)] for step in range(STEPS + 1))


def longer(after: Times, before: Times) -> Times:
    """By how much, quantile by quantile; never less than nothing, and never falling."""
    found: list[float] = []
    for one, other in zip(after, before, strict=True):
        found.append(max(one - other, 0.0, found[-1] if found else 0.0))
    return tuple(found)


def at(times: Times, share: float) -> float:
    """The quantile, between two known ones by a straight line."""
    place = min(max(share, 0.0), 1.0) * STEPS
    below = min(int(place), STEPS - 1)
    return times[below] + (times[below + 1] - times[below]) * (place - below)


def share_of(rank: int, count: int, share: float) -> float:
    """The quantile of one that is the quantile of the ``rank``-th fastest of ``count``."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        reached = sum(
            comb(count, done) * middle**done * (1 - middle) ** (count - done)
            for done in range(rank, count + 1)
        )
        low, high = (middle, high) if reached < share else (low, middle)
    return (low + high) / 2


def predict(terms: Terms, rounds: Sequence[Figures], brokers: int, cores: int) -> Predicted:
    found = [cost(terms, figures, brokers, cores) for figures in rounds]
    ranges = [Range(median(values), min(values), max(values)) for values in zip(*found, strict=True)]
    return Predicted(*ranges)


def cost(terms: Terms, figures: Figures, brokers: int, cores: int) -> Cost:
    return Cost(
        latency_ms(terms, figures, 0.5),
        latency_ms(terms, figures, 0.99),
        throughput(terms, figures, cores),
        throughput_apart(terms, figures, brokers),
    )


def latency_ms(terms: Terms, figures: Figures, share: float) -> float:
    """All on one machine: each follower takes the leader's time, and that of the cores, whether or not it is
    waited for.
    """
    beside = (terms.replicas - 1) * at(figures.beside_ms, 0.5)
    return at(figures.round_trip_ms, share) + beside + pending_ms(terms, figures, share)


def pending_ms(terms: Terms, figures: Figures, share: float) -> float:
    """After the leader has the record: its own sync and those of the followers go on at the same time."""
    needed, followers = followers_needed(terms), terms.replicas - 1
    own = at(figures.sync_ms, share) if terms.synced else 0.0
    if needed == 0:
        return own
    reached = share_of(needed, followers, share)
    theirs = at(figures.follower_ms, reached)
    syncs = followers if terms.synced else 0  # One disk: after the leader's, and one after the other.
    return max(own, theirs + syncs * at(figures.sync_ms, reached))


def followers_needed(terms: Terms) -> int:
    """How many must have a record before it is acknowledged, while all keep up."""
    rule = RULES[terms.mode]
    if terms.acks != "all" and not rule.acks_1_is_all:
        return 0
    if rule.leader_can_be_replaced and not rule.elects_itself:
        return terms.replicas - 1  # All of them are in sync.
    return terms.copies - 1


def throughput(terms: Terms, figures: Figures, cores: int) -> float:
    followers = terms.replicas - 1
    cpu = (
        figures.client_cpu_s_per_mb + figures.leader_cpu_s_per_mb + followers * figures.follower_cpu_s_per_mb
    )
    seconds = cpu / min(figures.busy_cores, cores)
    if not terms.synced:
        return 1 / seconds
    return min(1 / (seconds + figures.sync_s_per_mb), 1 / (terms.replicas * figures.disk_s_per_mb))


def throughput_apart(terms: Terms, figures: Figures, brokers: int) -> float:
    """Leaders and followers are spread evenly, and a broker uses one core."""
    followers = terms.replicas - 1
    cpu = (figures.leader_cpu_s_per_mb + followers * figures.follower_cpu_s_per_mb) / brokers
    if not terms.synced:
        return 1 / cpu
    share = terms.replicas / brokers  # of all records, on one broker
    return min(1 / (cpu + share * figures.sync_s_per_mb), 1 / (share * figures.disk_s_per_mb))
