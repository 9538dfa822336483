"""From what happened in a round to the verdict of a topic."""

from tidelog.lab.experiment.model import Experiment, FaultStep, TopicSpec
from tidelog.lab.results import ALLOWED, BROKEN, KEPT, Band, Figures
from tidelog.lab.run.judging import Surroundings, judge_round
from tidelog.lab.run.placement import assignment
from tidelog.lab.run.ports import Windows
from tidelog.lab.run.round import RoundRecord, Struck
from tidelog.lab.run.schedule import hit_of

AROUND = Surroundings((1, 2, 3), (1, 2, 3), (1, 2, 3), 3, 1.5, 10.0)
FINE = Figures(acknowledged=100, received=100, redundant_after_s=0.1)
LOST = Figures(acknowledged=100, received=99, redundant_after_s=0.1, lost=1, harmed=(0,))


def played(experiment: Experiment, brokers: tuple[int, ...]) -> RoundRecord:
    struck = []
    for number, step in enumerate(experiment.timeline):
        hits = {
            topic.name: [
                hit_of(step, brokers, (), replicas[0])
                for replicas in assignment(AROUND.order, topic.partitions, topic.replicas)
            ]
            for topic in experiment.topics
        }
        struck.append(Struck(number, Band(name="", start_s=step.at, end_s=step.at + 2), hits))
    return RoundRecord(tuple(struck), Windows(0, 0, 0, 0), True)


def test_a_partition_that_was_not_hit_may_lose_nothing() -> None:
    """The primary of partition 0 is broker 1, that of partition 1 is broker 2."""
    topic = TopicSpec(
        name="t", mode="primary-backup", partitions=2, replicas=2, settings={"min.insync.replicas": "1"}
    )
    experiment = Experiment(
        name="x", title="", topics=(topic,), timeline=(FaultStep(at=0, fault="power-failure"),)
    )
    record = played(experiment, (1,))
    assert judge_round(experiment, topic, AROUND, record, LOST).verdict == ALLOWED
    elsewhere = Figures(acknowledged=100, received=99, redundant_after_s=0.1, lost=1, harmed=(1,))
    assert judge_round(experiment, topic, AROUND, record, elsewhere).verdict == BROKEN


def test_after_a_change_of_mode_the_weaker_promise_counts() -> None:
    topic = TopicSpec(name="t", mode="quorum")
    change = FaultStep(at=0, fault="change-mode", parameters={"mode": "isr"})
    power = FaultStep(at=1, fault="power-failure", on="all")
    whole = Experiment(name="x", title="", topics=(topic,), timeline=(change, power))
    assert judge_round(whole, topic, AROUND, played(whole, (1, 2, 3)), LOST).verdict == ALLOWED
    alone = Experiment(name="x", title="", topics=(topic,), timeline=(power,))
    assert judge_round(alone, topic, AROUND, played(alone, (1, 2, 3)), LOST).verdict == BROKEN


def test_a_round_without_faults_can_be_kept() -> None:
    quiet = Experiment(name="x", title="")
    assert judge_round(quiet, quiet.topics[0], AROUND, played(quiet, ()), FINE).verdict == KEPT
