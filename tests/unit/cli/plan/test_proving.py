"""The experiment of ``--prove``: the lab understands it, and promises what the plan says."""

from pathlib import Path

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.plan.proving import _jobs, experiment_of, experiment_text
from tidelog.lab.run.judging import Surroundings, promise_beforehand
from tidelog.lab.run.placement import assignment
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
        "disks-2",
        "power",
    ]
    assert all([topic.mode for topic in phase.topics] == ["quorum", "isr"] for phase in phases)
    assert [phase.timeline[0].fault for phase in phases] == ["kill", "kill", "wipe", "power-failure"]


@pytest.mark.parametrize(
    "needs",
    [Needs(3, writes=1, data=1), Needs(3, writes=1, data=1, power=True), Needs(2, reads=1), Needs(1)],
    ids=str,
)
def test_the_lab_understands_every_plan(needs: Needs) -> None:
    best = search(needs).candidates[0]
    assert experiment_of([best], needs.brokers).topics[0].replicas == best.terms.replicas


def phases_of(terms: Terms, brokers: int) -> dict[str, list[tuple[str, str]]]:
    """Title → faults and brokers of its timeline."""
    plan = assess(terms, Needs(brokers).placement(terms.replicas), brokers=brokers)
    phases = expanded(experiment_of([plan], brokers))
    return {phase.title: [(step.fault, step.on) for step in phase.timeline] for phase in phases}


class TestLostDisks:
    def test_as_many_as_the_plan_tolerates(self) -> None:
        phases = phases_of(Terms("isr", 5, min_in_sync=3), 5)
        assert phases["2 of 5 brokers lose their disks"] == [("wipe", "1+2")]

    def test_never_a_majority_of_the_controllers_at_once(self) -> None:
        phases = phases_of(Terms("isr", 3, min_in_sync=3), 3)
        assert phases["2 of 3 brokers lose their disks, one at a time"] == [("wipe", "1"), ("wipe", "2")]

    @pytest.mark.parametrize(
        ("terms", "brokers"),
        [(Terms("primary-backup", 2, min_in_sync=1), 3), (Terms("isr", 2, min_in_sync=2), 2)],
        ids=["none is tolerated", "two controllers tolerate none"],
    )
    def test_not_where_none_is_tolerated(self, terms: Terms, brokers: int) -> None:
        faults = [step for steps in phases_of(terms, brokers).values() for step, _ in steps]
        assert faults
        assert "wipe" not in faults

    def test_the_lab_promises_that_nothing_is_lost(self) -> None:
        (phase,) = [each for each in expanded(experiment_of(EXERCISE, 5)) if "disks" in each.name]
        around = Surroundings((1, 2, 3, 4, 5), (1, 2, 3, 4, 5), (1, 2, 3, 4, 5), 5, 1.5, 10.0)
        for topic in phase.topics:
            assert not promise_beforehand(phase, topic, around).loss_reason


def test_every_broker_leads_a_partition() -> None:
    """Otherwise a fault of some brokers may miss the topic."""
    plan = assess(Terms("isr", 2, min_in_sync=1), Needs(5).placement(2), brokers=5)
    (topic,) = experiment_of([plan], 5).topics
    leaders = {each[0] for each in assignment([1, 2, 3, 4, 5], topic.partitions, topic.replicas)}
    assert leaders == {1, 2, 3, 4, 5}


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
        assert len(jobs) == len(theirs) + 4

    def test_other_modes_are_refused(self) -> None:
        with pytest.raises(CommandFailed, match="no mode but isr"):
            _jobs(EXERCISE[:1], 5, Path("jars"))
