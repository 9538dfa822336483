"""From an experiment and what happened in a round to promise and verdict of each topic. Pure.

A topic is judged by the worst of its partitions: the one whose leader and replicas were hit most.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidelog.lab.experiment.model import Experiment, TopicSpec
from tidelog.lab.experiment.modes import terms_of
from tidelog.lab.experiment.parties import Casting
from tidelog.lab.figures.rounds import median, worst
from tidelog.lab.promise import Hit, Promise, Setting, promise
from tidelog.lab.results import Cell, Figures, Round
from tidelog.lab.run.placement import assignment
from tidelog.lab.run.round import RoundRecord
from tidelog.lab.run.schedule import planned_hits, versions_of
from tidelog.lab.verdict import Judgement, judge, overall


class Surroundings(NamedTuple):
    brokers: tuple[int, ...]
    order: tuple[int, ...]  # in which brokers got replicas
    voters: tuple[int, ...]
    controller: int
    session_s: float
    lag_s: float
    notices_ends: bool = True


def setting_of(
    experiment: Experiment, topic: TopicSpec, around: Surroundings, replicas: tuple[int, ...]
) -> Setting:
    loads = [load for load in experiment.loads if load.topic == topic.name]
    return Setting(
        terms_of(topic),
        replicas,
        around.voters,
        around.brokers,
        acks=min((load.acks for load in loads), default="all"),  # "0" < "1" < "all"
        is_idempotent=all(load.idempotent or load.transactional for load in loads),
        session_s=around.session_s,
        lag_s=around.lag_s,
        notices_ends=around.notices_ends,
    )


def promise_beforehand(experiment: Experiment, topic: TopicSpec, around: Surroundings) -> Promise:
    """If every fault hits those whom the placement wants it to hit."""
    first = experiment.topics[0]
    leading = assignment(around.order, 1, first.replicas)[0]
    now = Casting(around.brokers, leading[0], tuple(leading[1:]), around.controller, around.voters)
    hits = planned_hits(experiment, now)
    return _worst(
        _promise(
            experiment,
            topic,
            around,
            replicas,
            [hit._replace(leader=replicas[0]) for hit in hits],
            experiment.lasts,
        )
        for replicas in assignment(around.order, topic.partitions, topic.replicas)
    )


def judge_round(
    experiment: Experiment, topic: TopicSpec, around: Surroundings, record: RoundRecord, figures: Figures
) -> Judgement:
    replicas = assignment(around.order, topic.partitions, topic.replicas)
    end_s = max((band.end_s or band.start_s for band in record.bands), default=0.0)
    promises = [
        _promise(experiment, topic, around, brokers, record.hits(topic.name, partition), end_s)
        for partition, brokers in enumerate(replicas)
    ]
    hits: Sequence[Hit] = record.hits(topic.name, 0)
    return judge(
        setting_of(experiment, topic, around, tuple(replicas[0])),
        _worst(promises),
        hits,
        figures,
        experiment.checks,
        came_back=topic.name not in record.silent,
        late_s=record.late_s,
        safe={partition for partition, each in enumerate(promises) if not each.loss_reason},
        ended=record.ended,
    )


def _promise(
    experiment: Experiment,
    topic: TopicSpec,
    around: Surroundings,
    replicas: Sequence[int],
    hits: Sequence[Hit],
    end_s: float,
) -> Promise:
    """Of one partition. If the timeline changes the topic, no one knows which record was written under which
    settings: the weaker promise counts.
    """
    return _worst(
        promise(setting_of(experiment, version, around, tuple(replicas)), hits, end_s)
        for version in versions_of(experiment, topic)
    )


def summarised(cell: Cell, rounds: Sequence[Round], planned: int) -> Cell:
    """The cell with these rounds, of so many that there should be."""
    verdict, sentence = overall(rounds, planned)
    figures = [each.figures for each in rounds]
    return replace(
        cell,
        verdict=verdict,
        sentence=sentence,
        rounds=tuple(rounds),
        worst=worst(figures),
        median=median(figures),
    )


def _worst(promises: Iterable[Promise]) -> Promise:
    found = list(promises)
    base = max(found, key=lambda each: (bool(each.loss_reason), not each.writes_go_on, each.writes_s))
    return base._replace(
        writes_s=max(each.writes_s for each in found),
        writes_go_on=all(each.writes_go_on for each in found),
        reads_go_on=all(each.reads_go_on for each in found),
        commits_may_be_lost=any(each.commits_may_be_lost for each in found),
        needs_operator=any(each.needs_operator for each in found),
        is_reachable=all(each.is_reachable for each in found),
    )
