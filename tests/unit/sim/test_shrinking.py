"""Shortest stories: of invented failures, whose causes are known, and of a broken rule."""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tidelog.sim.attempt import Outcome, attempt
from tidelog.sim.overrides import UnknownOverride, command, parse, parse_numbers
from tidelog.sim.plan import WeatherPlan, draw
from tidelog.sim.run import Simulation
from tidelog.sim.shrinking import minimal, shrink

pytestmark = pytest.mark.slow

DRAWN = 20


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Invented:
    """Runs that fail for a known reason; what was tried is counted."""

    def __init__(
        self, reason: Callable[[Mapping[str, Any]], bool], error: str = "Violation: t-0 lost 7"
    ) -> None:
        self._reason = reason
        self._error = error
        self.tried = 0

    def __call__(self, mode: str, seed: int, wanted: Mapping[str, Any]) -> Outcome:
        self.tried += 1
        numbers = wanted.get("only_faults") or tuple(range(1, DRAWN + 1))
        told = tuple(f"{number * 1000.0:10.1f} fault {number}: kill 1" for number in numbers)
        error = self._error if self._reason(wanted) else ""
        return Outcome(mode, seed, error, drawn=DRAWN, told=told)


def has_faults(*needed: int) -> Callable[[Mapping[str, Any]], bool]:
    return lambda wanted: set(needed) <= set(wanted.get("only_faults", range(1, DRAWN + 1)))


@pytest.mark.parametrize("needed", [set(), {5}, {0, 19}, {3, 7, 11}, set(range(20))])
def test_what_is_needed_is_what_stays(needed: set[int]) -> None:
    assert set(minimal(range(20), lambda kept: needed <= set(kept))) == needed


def test_nothing_alone_can_be_left_out_where_either_of_two_is_enough() -> None:
    def fails(kept: list[int]) -> bool:
        return {2, 9} <= set(kept) or {4, 5, 6} <= set(kept)

    kept = minimal(range(12), fails)
    assert fails(kept)
    assert not any(fails([each for each in kept if each != one]) for one in kept)


def test_two_faults_of_twenty_and_the_simplest_plan_are_left() -> None:
    runs = Invented(has_faults(3, 17))
    story = shrink(runs("isr", 3, {}), {}, attempt=runs)
    assert story.wanted["only_faults"] == (3, 17)
    assert (story.drawn, len(story.outcome.told)) == (DRAWN, 2)
    plan = draw("isr", 3, story.wanted)
    assert (plan.size, plan.controllers, plan.partitions, plan.producers) == (3, 0, 1, ())
    assert plan.weather == WeatherPlan()
    assert plan.faults_ms == 17_500.0


def test_what_the_failure_needs_of_the_plan_stays() -> None:
    def reason(wanted: Mapping[str, Any]) -> bool:
        plan = draw("isr", 3, wanted)
        return has_faults(8)(wanted) and plan.size == 5 and any(each.acks == -1 for each in plan.producers)

    runs = Invented(reason)
    story = shrink(runs("isr", 3, {}), {}, attempt=runs)
    plan = draw("isr", 3, story.wanted)
    assert plan.size == 5
    assert [each.acks for each in plan.producers] == [-1]
    assert story.wanted["only_faults"] == (8,)


def test_another_course_is_tried_before_a_candidate_is_given_up() -> None:
    """The race of the seed needs its whole course; without any of its faults another course has it."""

    def reason(wanted: Mapping[str, Any]) -> bool:
        return not wanted or (has_faults(4)(wanted) and wanted.get("luck") == 3)

    runs = Invented(reason)
    story = shrink(runs("quorum", 1, {}), {}, attempt=runs)
    assert story.wanted["only_faults"] == (4,)
    assert story.wanted["luck"] == 3


def test_another_kind_of_failure_is_another_failure() -> None:
    lost = Invented(has_faults(3, 4))

    def runs(mode: str, seed: int, wanted: Mapping[str, Any]) -> Outcome:
        outcome = lost(mode, seed, wanted)
        return outcome if outcome.failed else outcome._replace(error="Violation: not whole again")

    story = shrink(runs("isr", 1, {}), {}, attempt=runs)
    assert story.wanted["only_faults"] == (3, 4)
    assert "lost" in story.outcome.error


def test_the_number_of_runs_is_bounded_and_what_was_found_so_far_is_told() -> None:
    runs = Invented(has_faults(1, 20))
    story = shrink(runs("isr", 1, {}), {}, runs_max=10, attempt=runs)
    assert runs.tried == 11
    assert story.runs == 10
    assert has_faults(1, 20)(story.wanted)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("t-1 offset 394: node 4 takes (395, 6, 3) for it", "x3-0 offset 7: node 1 takes (1, 2, 3) for it"),
        ("g1007: 83 was found, [] asked for", "g1007: 85 was found, [1, 2] asked for"),
    ],
)
def test_kinds_do_not_depend_on_names_and_numbers(one: str, other: str) -> None:
    assert Outcome("isr", 1, one).kind == Outcome("isr", 1, other).kind
    assert Outcome("isr", 1, one).kind != Outcome("isr", 1, "a healthy cluster takes no writes:\n…").kind


def test_a_command_says_what_was_wanted() -> None:
    wanted = dict(
        parse("isr", override) for override in ["producers=[[0,-1,true]]", "weather=[0.1,0.0,0.0,400.0]"]
    )
    assert wanted["producers"][0].idempotent
    assert wanted["weather"] == WeatherPlan(lost=0.1)
    text = command("isr", 5, {"size": 3, "only_faults": parse_numbers("1,2"), **wanted})
    assert text.startswith("tidelog sim --seed 5 --mode isr --brokers 3 --only-faults 1,2 --plan 'producers=")


@pytest.mark.parametrize("override", ["nothing=1", "size", "size=many"])
def test_an_override_that_no_plan_has_is_refused(override: str) -> None:
    with pytest.raises(UnknownOverride):
        parse("isr", override)


def test_leaving_out_faults_changes_neither_kind_nor_time_of_the_others() -> None:
    def kinds(outcome: Outcome) -> list[tuple[str, str]]:
        return [(line.split()[0], line.split()[2]) for line in outcome.told]

    whole = attempt("isr", 5, {"faults_ms": 8000.0})
    some = attempt("isr", 5, {"faults_ms": 8000.0, "only_faults": (2, 4)})
    none = attempt("isr", 5, {"faults_ms": 8000.0, "only_faults": ()})
    assert kinds(some) == [kinds(whole)[1], kinds(whole)[3]]
    assert (none.told, none.faults, none.drawn) == ((), 0, whole.drawn)
    assert len({whole.digest, some.digest, none.digest}) == 3


def test_luck_changes_the_course_and_not_the_faults() -> None:
    plain, other = (attempt("controllers", 4, {"faults_ms": 4000.0, "luck": luck}) for luck in (0, 1))
    assert plain.digest != other.digest
    assert [line.split()[:3] for line in plain.told] == [line.split()[:3] for line in other.told]


def test_a_broken_rule_is_told_with_few_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody insists that no process ever dies: one fault is enough to show it."""
    run = Simulation.run

    def broken(simulation: Simulation) -> Any:
        result = run(simulation)
        if any(name in simulation.nemesis.struck for name in ("kill", "power", "restart", "blink")):
            raise AssertionError("t-0: somebody died")
        return result

    monkeypatch.setattr(Simulation, "run", broken)
    short = {"faults_ms": 6000.0, "administrated": False}
    failure = next(
        outcome for seed in range(20) if (outcome := attempt("isr", seed, short)).failed and outcome.drawn > 4
    )
    story = shrink(failure, short, runs_max=60)
    assert len(story.outcome.told) == 1
    assert story.lines()[-1] == "AssertionError: t-0: somebody died"
    assert f"--only-faults {story.wanted['only_faults'][0]}" in story.lines()[1]
