"""Years: how often an acknowledged record may be lost, and how many minutes no write is acknowledged.

A continuous-time Markov chain: every broker with a replica and every controller is up, down, or without its
data until it has copied everything again. Brokers in one rack lose power together. In each state
:func:`tidelog.planner.model.outcome` says what happens. Solved exactly, by elimination without subtractions
(Grassmann, Taksar and Heyman), so that rare events keep their digits; large chains by sweeps until no share
changes in its first 13 digits.

The loss is an upper bound: every moment in which the model allows a loss counts as one, whatever the order of
the faults, and whether or not a record was on its way. A broker that is down may also be one that is back and
has not caught up.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product
from math import exp, inf
from typing import NamedTuple

from tidelog.planner.faults import NONE, Faults, Placement
from tidelog.planner.losses import loss
from tidelog.planner.model import Outcome, outcome
from tidelog.planner.promises import LEADER, Terms

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


SOURCES = {
    "broker_failures": "assumed: once in 4.3 months, crashes, upgrades and repairs together",
    "broker_repair_h": "assumed; a restart is faster, a machine that has to be replaced slower",
    "disk_losses": "1.57 % of the drives failed in 2024 (Backblaze Drive Stats), rounded",
    "disk_repair_h": "assumed: a new disk, and a copy of 1 TB at 50 MB/s",
    "rack_failures": "assumed: once in ten years",
    "site_failures": "assumed: once in five years",
}

UP, DOWN, EMPTY = 0, 1, 2
State = tuple[tuple[int, ...], ...]
"""For every group of brokers that are the same for the chain: how many are up, down, empty."""


class Years(NamedTuple):
    losses: float  # expected number per year
    write_minutes: float  # per year without writes
    read_minutes: float

    @property
    def loss_probability(self) -> float:
        """Of at least one in a year."""
        return 1 - exp(-self.losses) if self.losses > 1e-6 else self.losses


class Event(NamedTuple):
    rate: float  # per year
    target: State
    loses: bool  # by itself: what was not synced goes with the power


def years(terms: Terms, where: Placement, rates: Rates) -> Years:
    """Brokers without a rack have a rack of their own. Where records are lost without any fault (acks=0), the
    loss is certain.
    """
    chain = Chain(terms, where, rates)
    weighted = list(zip(stationary(chain.matrix()), chain.states, strict=True))
    return Years(
        inf
        if outcome(terms, where, NONE).loss
        else sum(weight * chain.losing(state) for weight, state in weighted),
        MINUTES_PER_YEAR * sum(weight for weight, state in weighted if not chain.outcome(state).writes),
        MINUTES_PER_YEAR * sum(weight for weight, state in weighted if not chain.outcome(state).reads),
    )


class Chain:
    def __init__(self, terms: Terms, where: Placement, rates: Rates) -> None:
        self.terms, self.where, self.rates = terms, where, rates
        self._groups, self._racks = _grouped(where)
        self.states: list[State] = [
            tuple(_counted(kinds) for kinds in chosen)
            for chosen in product(
                *(combinations_with_replacement((UP, DOWN, EMPTY), len(group)) for group in self._groups)
            )
        ]
        self._outcomes: dict[State, Outcome] = {}
        self._struck: dict[tuple[State, tuple[int, ...]], bool] = {}

    @property
    def all_up(self) -> State:
        return tuple((len(group), 0, 0) for group in self._groups)

    def outcome(self, state: State) -> Outcome:
        known = self._outcomes.get(state)
        if known is None:
            faults = self._faults(state, (), (0,) * len(state))
            known = self._outcomes[state] = outcome(self.terms, self.where, faults)
        return known

    def _loses(self, state: State, struck: tuple[int, ...]) -> bool:
        """``struck``: how many of each group that were up lose power at this moment."""
        known = self._struck.get((state, struck))
        if known is None:
            known = any(
                loss(self.terms, self.where, self._faults(state, struck, late)) for late in self._late(state)
            )
            self._struck[state, struck] = known
        return known

    def _late(self, state: State) -> Iterator[tuple[int, ...]]:
        """How many of each group that are down may be back, and not caught up yet: as controllers they agree
        to leave themselves out of the in-sync set.
        """
        down = tuple(counts[DOWN] for counts in state)
        if self.terms.acks == "all" and not self.terms.unclean:
            return iter((down,))  # The worst: nothing but the controllers' majority tells the two apart.
        return product(*(range(count + 1) for count in down))

    def _faults(self, state: State, struck: tuple[int, ...], late: tuple[int, ...]) -> Faults:
        slow: set[int] = set()
        dead: set[int] = set()
        lost: set[int] = set()
        off: set[int] = set()
        for number, (group, counts) in enumerate(zip(self._groups, state, strict=True)):
            down = group[counts[UP] : counts[UP] + counts[DOWN]]
            slow |= {*down[: late[number]]}
            dead |= {*down[late[number] :]}
            lost |= {*group[counts[UP] + counts[DOWN] :]}
            off |= {*group[: struck[number]]} if struck else set()
        return Faults(frozenset(slow), frozenset(dead), frozenset(), frozenset(off), frozenset(lost))

    def events(self, state: State) -> list[Event]:
        return [*self._single(state), *self._power_failures(state)]

    def _single(self, state: State) -> Iterator[Event]:
        rates = self.rates
        change = {
            (UP, DOWN): rates.broker_failures,
            (UP, EMPTY): rates.disk_losses,
            (DOWN, UP): HOURS_PER_YEAR / rates.broker_repair_h,
            (DOWN, EMPTY): rates.disk_losses,
            (EMPTY, UP): HOURS_PER_YEAR / rates.disk_repair_h,
        }
        for number, counts in enumerate(state):
            for (before, after), rate in change.items():
                if counts[before]:
                    yield Event(rate * counts[before], _moved(state, number, before, after, 1), False)

    def _power_failures(self, state: State) -> Iterator[Event]:
        """Of racks that hold one of these brokers, of racks that hold several, and of all."""
        rates = self.rates
        for number, counts in enumerate(state):
            if self._racks[number] == "" and counts[UP]:
                yield self._off(state, {number: 1}, rates.rack_failures * counts[UP])
        for rack in dict.fromkeys(filter(None, self._racks)):
            inside = {number: state[number][UP] for number, each in enumerate(self._racks) if each == rack}
            yield self._off(state, inside, rates.rack_failures)
        yield self._off(
            state, {number: counts[UP] for number, counts in enumerate(state)}, rates.site_failures
        )

    def _off(self, state: State, struck: Mapping[int, int], rate: float) -> Event:
        target = state
        for number, count in struck.items():
            target = _moved(target, number, UP, DOWN, count)
        by_group = tuple(struck.get(number, 0) for number in range(len(state)))
        return Event(rate, target, self._loses(state, by_group))

    def losing(self, state: State) -> float:
        """How often per year, in this state, a record may be lost that was not lost before."""
        none = (0,) * len(state)
        if self._loses(state, none):
            return 0.0
        return sum(
            event.rate for event in self.events(state) if event.loses or self._loses(event.target, none)
        )

    def matrix(self) -> list[list[float]]:
        """Rates between the states."""
        size = len(self.states)
        numbers = {state: number for number, state in enumerate(self.states)}
        found = [[0.0] * size for _ in range(size)]
        for number, state in enumerate(self.states):
            for event in self.events(state):
                if event.target != state:
                    found[number][numbers[event.target]] += event.rate
        return found


def _grouped(where: Placement) -> tuple[list[tuple[int, ...]], list[str]]:
    """The leader, then followers that are the same: in the same rack, controllers or not; then controllers
    without a replica. And the rack of each group; none for brokers that share theirs with no other one.
    """
    brokers = (*where.replicas, *where.separate_controllers)
    racks = Counter(where.rack_of(each) for each in brokers)
    found: dict[tuple[bool, bool, str, bool], list[int]] = {}
    for place, broker in enumerate(brokers):
        rack = where.rack_of(broker)
        shared = rack if rack and racks[rack] > 1 else ""
        key = (place == LEADER, broker in where.replicas, shared, broker in where.controllers)
        found.setdefault(key, []).append(broker)
    return [tuple(group) for group in found.values()], [shared for _, _, shared, _ in found]


def _counted(kinds: Sequence[int]) -> tuple[int, ...]:
    return tuple(list(kinds).count(kind) for kind in (UP, DOWN, EMPTY))


def _moved(state: State, number: int, before: int, after: int, count: int) -> State:
    counts = list(state[number])
    counts[before] -= count
    counts[after] += count
    return (*state[:number], tuple(counts), *state[number + 1 :])


ELIMINATED_MAX = 300
"""States. The time of an elimination grows with the cube: 2,187 states would take minutes."""
SWEEPS_MAX = 1000
PRECISION = 1e-13  # relative, of every share


def stationary(rates: list[list[float]]) -> list[float]:
    """The share of time in each state. The first state is the usual one."""
    swept = by_sweeps(rates) if len(rates) > ELIMINATED_MAX else None
    return swept or by_elimination(rates)


def by_sweeps(rates: list[list[float]]) -> list[float] | None:
    """Each share from those of the others, to and fro until none changes (Gauss and Seidel). Only positive
    numbers are added here, too. None: they still change after many sweeps.
    """
    size = len(rates)
    into: list[list[tuple[int, float]]] = [[] for _ in range(size)]
    for state, row in enumerate(rates):
        for target, rate in enumerate(row):
            if rate:
                into[target].append((state, rate))
    leaving = [sum(row) for row in rates]
    weights = [1.0] + [0.0] * (size - 1)
    for sweep in range(SWEEPS_MAX):
        changed = False
        for state in range(1, size) if sweep % 2 == 0 else range(size - 1, 0, -1):
            weight = sum(weights[before] * rate for before, rate in into[state]) / leaving[state]
            changed |= abs(weight - weights[state]) > PRECISION * weight
            weights[state] = weight
        if not changed:
            total = sum(weights)
            return [weight / total for weight in weights]
    return None


def by_elimination(rates: list[list[float]]) -> list[float]:
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
