"""Years: how often an acknowledged record may be lost, and how many minutes no write is acknowledged.

A continuous-time Markov chain: every replica's broker is up, down, or without its data until it has copied
everything again. In each state :func:`tidelog.planner.model.outcome` says what happens. Solved exactly, by
elimination without subtractions (Grassmann, Taksar and Heyman), so that rare events keep their digits.

The loss is an upper bound: every moment in which the model allows a loss counts as one, whatever the order of
the faults, and whether or not a record was on its way.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import exp
from typing import NamedTuple

from tidelog.planner.faults import Faults, Placement
from tidelog.planner.model import outcome
from tidelog.planner.promises import Terms

HOURS_PER_YEAR = 8766.0
MINUTES_PER_YEAR = HOURS_PER_YEAR * 60


class Rates(NamedTuple):
    """Failures per year, and hours until they are over."""

    broker_failures: float = 2.8
    broker_repair_h: float = 1.0
    disk_losses: float = 0.015
    disk_repair_h: float = 6.0
    rack_failures: float = 0.1  # of one rack's power
    site_failures: float = 0.2  # power of all brokers at once
    one_rack: bool = False  # All replicas are in one rack.


SOURCES = {
    "broker_failures": "a node fails every 4.3 months (Ford et al., Availability in Globally Distributed "
    "Storage Systems, OSDI 2010)",
    "broker_repair_h": "assumed; a restart is faster, a machine that has to be replaced slower",
    "disk_losses": "1 to 2 % of drives fail per year (drive statistics that Backblaze publishes)",
    "disk_repair_h": "assumed: a new disk, and a copy of 1 TB at 50 MB/s",
    "rack_failures": "a rack fails every 10.2 years (Ford et al., 2010)",
    "site_failures": "assumed: once in five years",
}

UP, DOWN, EMPTY = 0, 1, 2
State = tuple[int, tuple[int, ...]]
"""The leader's or primary's broker, and how many of the others are up, down, empty."""


class Years(NamedTuple):
    losses: float  # expected number per year
    write_minutes: float  # per year without writes
    read_minutes: float

    @property
    def loss_probability(self) -> float:
        """Of at least one in a year."""
        return 1 - exp(-self.losses) if self.losses > 1e-6 else self.losses


def years(terms: Terms, where: Placement, rates: Rates) -> Years:
    chain = _Chain(terms, where, rates)
    weighted = list(zip(stationary(chain.matrix()), chain.states, strict=True))
    return Years(
        sum(weight * chain.losing(state) for weight, state in weighted),
        MINUTES_PER_YEAR * sum(weight for weight, state in weighted if not chain.writes(state)),
        MINUTES_PER_YEAR * sum(weight for weight, state in weighted if not chain.reads(state)),
    )


class _Chain:
    def __init__(self, terms: Terms, where: Placement, rates: Rates) -> None:
        self.terms, self.where, self.rates = terms, where, rates
        others = terms.replicas - 1
        self.states: list[State] = [
            (leader, _counted(rest))
            for leader in (UP, DOWN, EMPTY)
            for rest in combinations_with_replacement((UP, DOWN, EMPTY), others)
        ]
        self._number = {state: number for number, state in enumerate(self.states)}
        self._outcomes = [outcome(terms, where, self._faults(state)) for state in self.states]

    def writes(self, state: State) -> bool:
        return self._outcomes[self._number[state]].writes

    def reads(self, state: State) -> bool:
        return self._outcomes[self._number[state]].reads

    def _loses(self, state: State) -> bool:
        return bool(self._outcomes[self._number[state]].loss)

    def _faults(self, state: State, *, without_power: bool = False) -> Faults:
        leader, rest = state
        kinds = [leader, *Counter(dict(enumerate(rest))).elements()]
        placed = list(zip(self.where.replicas, kinds, strict=True))
        dead = frozenset(broker for broker, kind in placed if kind == DOWN)
        lost = frozenset(broker for broker, kind in placed if kind == EMPTY)
        struck = frozenset(self.where.replicas) - lost - dead if without_power else frozenset()
        return Faults(dead=dead, disk_lost=lost, power_lost=struck)

    def rates_from(self, state: State) -> list[tuple[float, State]]:
        """(per year, next state), without the power failures of all."""
        rates = self.rates
        change = {
            (UP, DOWN): rates.broker_failures + (0 if rates.one_rack else rates.rack_failures),
            (UP, EMPTY): rates.disk_losses,
            (DOWN, UP): HOURS_PER_YEAR / rates.broker_repair_h,
            (DOWN, EMPTY): rates.disk_losses,
            (EMPTY, UP): HOURS_PER_YEAR / rates.disk_repair_h,
        }
        leader, rest = state
        found: list[tuple[float, State]] = []
        for (before, after), rate in change.items():
            if leader == before:
                found.append((rate, (after, rest)))
            if rest[before]:
                found.append((rate * rest[before], (leader, _moved(rest, before, after))))
        return found

    @property
    def at_once(self) -> float:
        """Power failures per year that hit all replicas."""
        return self.rates.site_failures + (self.rates.rack_failures if self.rates.one_rack else 0)

    def losing(self, state: State) -> float:
        """How often per year, in this state, a record may be lost that was not lost before."""
        if self._loses(state):
            return 0.0
        struck = outcome(self.terms, self.where, self._faults(state, without_power=True)).loss
        entered = sum(rate for rate, target in self.rates_from(state) if self._loses(target))
        return entered + (self.at_once if struck else 0.0)

    def matrix(self) -> list[list[float]]:
        """Rates between the states."""
        size = len(self.states)
        found = [[0.0] * size for _ in range(size)]
        for number, state in enumerate(self.states):
            leader, rest = state
            off = (DOWN if leader == UP else leader, _moved(rest, UP, DOWN, rest[UP]))
            for rate, target in [*self.rates_from(state), (self.at_once, off)]:
                if target != state:
                    found[number][self._number[target]] += rate
        return found


def _counted(kinds: Sequence[int]) -> tuple[int, ...]:
    return tuple(list(kinds).count(kind) for kind in (UP, DOWN, EMPTY))


def _moved(counts: tuple[int, ...], before: int, after: int, count: int = 1) -> tuple[int, ...]:
    found = list(counts)
    found[before] -= count
    found[after] += count
    return tuple(found)


def stationary(rates: list[list[float]]) -> list[float]:
    """The share of time in each state."""
    size = len(rates)
    work = [row[:] for row in rates]
    for last in range(size - 1, 0, -1):
        leaving = sum(work[last][:last])
        if leaving == 0.0:
            continue
        for row in range(last):
            work[row][last] /= leaving
            share = work[row][last]
            if share:
                for column in range(last):
                    if column != row:
                        work[row][column] += share * work[last][column]
    weights = [1.0] + [0.0] * (size - 1)
    for state in range(1, size):
        weights[state] = sum(weights[before] * work[before][state] for before in range(state))
    total = sum(weights)
    return [weight / total for weight in weights]
