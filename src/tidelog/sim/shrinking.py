"""Shortens a failing seed: fewer faults, fewer clients, a smaller cluster, a shorter run.

A candidate must have the same kind of failure (:attr:`Outcome.kind`). Leaving something out also changes
everything after it, because fewer random numbers are drawn; a race that needs certain numbers would be
missed. So every candidate is tried with some other random choices (``luck`` of the plan) before it is
rejected. The faults themselves do not change: each has its own random source (:meth:`Nemesis._again`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tidelog.sim import controllers_run, plan
from tidelog.sim.attempt import Outcome, attempt
from tidelog.sim.overrides import command
from tidelog.sim.plan import Plan, WeatherPlan
from tidelog.sim.run import CONTROLLERS

T = TypeVar("T")
Attempt = Callable[[str, int, Mapping[str, Any]], Outcome]

RUNS_MAX = 300
COURSES = 4  # for each candidate
SETTLES_MS = (500.0, 2000.0, 5000.0)  # how long the phase with faults may last after the last one

# How a run is observed, not what happens in it.
_NOT_SIMPLER = frozenset(
    ("mode", "only_faults", "luck", "faults", "without", "faults_ms", "pace_ms", "rounds")
)


class Story(NamedTuple):
    """The shortest run that was found."""

    outcome: Outcome
    wanted: dict[str, Any]  # what turns the seed's run into this one
    drawn: int  # faults of the original run
    runs: int  # that were tried

    @property
    def command(self) -> str:
        return command(self.outcome.mode, self.outcome.seed, self.wanted)

    def lines(self) -> list[str]:
        """As a golden file: the faults, the relevant trace, and the violation."""
        outcome = self.outcome
        done = len(outcome.told)
        return [
            f"{outcome.mode}, seed {outcome.seed}: {done} of {self.drawn} faults, {self.runs} runs tried",
            f"repeat it with: {self.command}",
            "",
            *outcome.told,
            "",
            *(outcome.decisive or outcome.trace),
            "",
            outcome.error,
        ]


def minimal(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A part of ``items`` that still fails and of which no single item can be left out (delta debugging):
    first halves are left out, then quarters, down to single items.
    """
    kept, size = list(items), max(1, len(items) // 2)
    while kept:
        begin, shorter = 0, False
        while begin < len(kept):
            candidate = kept[:begin] + kept[begin + size :]
            if fails(candidate):
                kept, shorter = candidate, True
            else:
                begin += size
        if size == 1 and not shorter:
            break
        size = max(1, min(size // 2, len(kept)))
    return kept


def shrink(
    failure: Outcome, wanted: Mapping[str, Any], runs_max: int = RUNS_MAX, attempt: Attempt = attempt
) -> Story:
    """The shortest story of a failure; ``wanted`` is what its run was asked for."""
    return _Shrinking(failure, wanted, runs_max, attempt).run()


class _Shrinking:
    def __init__(self, failure: Outcome, wanted: Mapping[str, Any], runs_max: int, attempt: Attempt) -> None:
        self._failure = failure
        self._attempt = attempt
        self._runs_left = runs_max
        self._runs_max = runs_max
        self._best = failure
        self._wanted = dict(wanted)
        self._refused: set[str] = set()  # candidates that do not fail

    def run(self) -> Story:
        asked = self._wanted.get("only_faults")
        numbers = self._fewer_faults(range(1, self._failure.drawn + 1) if asked is None else asked)
        self._simpler_plan()
        # With fewer clients and a smaller cluster some faults may be unnecessary.
        self._fewer_faults(numbers)
        self._shorter_run()
        return Story(self._best, self._wanted, self._failure.drawn, self._runs_max - self._runs_left)

    def _fewer_faults(self, numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(minimal(numbers, lambda kept: self._takes(only_faults=tuple(kept))))

    def _simpler_plan(self) -> None:
        for change in _simpler(self._drawn_plan()):
            self._takes(**change)
        any(self._takes(**change) for change in _one_partition(self._drawn_plan()))
        drawn = self._drawn_plan()
        for name, default in drawn._field_defaults.items():
            if default == () and name not in _NOT_SIMPLER:
                self._fewer(name, getattr(drawn, name))

    def _fewer(self, name: str, items: Sequence[Any]) -> None:
        """Of clients, or other counts in a plan."""
        minimal(items, lambda kept: self._takes(**{name: tuple(kept)}))

    def _shorter_run(self) -> None:
        if not self._best.told:
            return
        last_ms = float(self._best.told[-1].split()[0])
        for settles_ms in SETTLES_MS:
            if self._takes(faults_ms=last_ms + settles_ms):
                return

    def _drawn_plan(self) -> Any:
        mode, seed = self._failure.mode, self._failure.seed
        if mode == CONTROLLERS:
            return controllers_run.draw(seed, self._wanted)
        return plan.draw(mode, seed, self._wanted)

    def _takes(self, **change: Any) -> bool:
        """Whether it still fails with this change; if it does, the change stays."""
        candidate = {**self._wanted, **change}
        key = repr(sorted((name, value) for name, value in candidate.items() if name != "luck"))
        if key in self._refused:
            return False
        if any(self._fails(candidate | course) for course in self._courses()):
            return True
        self._refused.add(key)
        return False

    def _courses(self) -> Iterator[dict[str, int]]:
        luck = self._wanted.get("luck", 0)
        yield {"luck": luck} if luck else {}
        yield from ({"luck": other} for other in range(1, COURSES + 1) if other != luck)

    def _fails(self, candidate: dict[str, Any]) -> bool:
        if not self._runs_left:
            return False
        self._runs_left -= 1
        outcome = self._attempt(self._failure.mode, self._failure.seed, candidate)
        if outcome.kind != self._failure.kind:
            return False
        self._best, self._wanted = outcome, candidate
        return True


def _simpler(drawn: Any) -> Iterator[dict[str, Any]]:
    """Simplify one field of a plan at a time: its default, and less if possible."""
    for name, default in drawn._field_defaults.items():
        if name not in _NOT_SIMPLER and getattr(drawn, name) != default:
            yield {name: default}
    if drawn.size > 3:
        yield {"size": 3}
    if isinstance(drawn, Plan):
        yield {"weather": WeatherPlan()}


def _one_partition(drawn: Any) -> Iterator[dict[str, Any]]:
    if isinstance(drawn, Plan) and drawn.partitions > 1:
        for partition in range(drawn.partitions):
            ours = tuple(
                each._replace(partition=0) for each in drawn.producers if each.partition == partition
            )
            yield {"partitions": 1, "producers": ours}
