"""The experiment of ``--prove``: the lab understands it, and promises what the plan says."""

from pathlib import Path

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.plan.proving import _jobs, experiment_of, experiment_text
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


class _Kafka:
    name = "kafka"
    modes = frozenset({"isr"})
    faults = frozenset({"kill", "freeze"})

    def __init__(self, jars: Path) -> None:
        self.jars = jars


class TestOnKafka:
    @pytest.fixture(autouse=True)
    def target(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tidelog.lab.targets.kafka.KafkaTarget", _Kafka)

    def test_its_mode_with_the_faults_that_it_offers(self) -> None:
        jobs = _jobs(EXERCISE, 5, Path("jars"))
        theirs = [job.experiment for job in jobs if job.target.name == "kafka"]
        assert [each.title for each in theirs] == ["2 of 5 brokers are dead", "3 of 5 brokers are dead"]
        assert {topic.mode for each in theirs for topic in each.topics} == {"isr"}
        assert len(jobs) == len(theirs) + 3

    def test_other_modes_are_refused(self) -> None:
        with pytest.raises(CommandFailed, match="no mode but isr"):
            _jobs(EXERCISE[:1], 5, Path("jars"))
