"""The experiment of ``--prove``: the lab understands it, and promises what the plan says."""

import pytest

from tidelog.cli.plan.proving import experiment_of, experiment_text
from tidelog.lab.run.schedule import expanded
from tidelog.planner.needs import Candidate, Needs, assess, search
from tidelog.planner.promises import Terms


def five(terms: Terms) -> Candidate:
    return assess(terms, Needs(5).placement(5))


EXERCISE = [five(Terms("quorum", 5)), five(Terms("isr", 5, min_in_sync=3))]


def test_the_exercise_has_a_phase_for_each_fault() -> None:
    phases = expanded(experiment_of(EXERCISE, 5))
    assert [phase.name.rpartition("plan")[2].strip("-/ :") for phase in phases] == [
        "dead-2",
        "dead-3",
        "power",
    ]
    assert all([topic.mode for topic in phase.topics] == ["quorum", "isr"] for phase in phases)
    assert [phase.timeline[0].fault for phase in phases] == ["kill", "kill", "power-failure"]


@pytest.mark.parametrize(
    "needs",
    [Needs(3, writes=1, data=1), Needs(3, writes=1, data=1, power=True), Needs(2, data=1), Needs(1)],
    ids=str,
)
def test_the_lab_understands_every_plan(needs: Needs) -> None:
    best = search(needs).candidates[0]
    assert experiment_of([best], needs.brokers).topics[0].replicas == best.terms.replicas


def test_settings_are_those_of_the_plan() -> None:
    text = experiment_text([five(Terms("isr", 5, min_in_sync=3, synced=True))], 5)
    assert '"min.insync.replicas" = "3"' in text
    assert '"flush.messages" = "1"' in text
