"""An experiment's timeline as what is done when, and how it is fitted to a target. Pure."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from tidelog.config import BROKER_SETTINGS
from tidelog.config.modes import WITHOUT_MEANING
from tidelog.lab.experiment.model import Experiment, FaultStep, TopicSpec
from tidelog.lab.experiment.parties import CLIENTS as CLIENTS_WORD
from tidelog.lab.experiment.parties import Casting, Party, resolve, resolve_between
from tidelog.lab.faults.catalog import FAULTS
from tidelog.lab.promise import ENDED, MARGIN_S, Hit
from tidelog.planner.outages import CLIENTS

OVERHEAD_S = 5.0  # of a round: topics, the start of the load, reading back
START_S = 4.0  # of a cluster


class Action(NamedTuple):
    at: float  # seconds of the timeline
    step: int  # its place in the timeline
    heals: bool


def actions(experiment: Experiment) -> list[Action]:
    """In order. What has no end of its own is healed at the end of the timeline; at the same moment, healing
    comes first.
    """
    found = []
    for number, step in enumerate(experiment.timeline):
        found.append(Action(step.at, number, heals=False))
        if not FAULTS[step.fault].is_momentary:
            found.append(Action(end_of(step, experiment.lasts), number, heals=True))
    return sorted(found, key=lambda action: (action.at, not action.heals))


def end_of(step: FaultStep, lasts: float) -> float:
    return lasts if step.lasts is None else step.at + step.lasts


def expanded(experiment: Experiment) -> list[Experiment]:
    """One for each phase."""
    if not experiment.phases:
        return [experiment]
    return [
        replace(
            experiment,
            name=f"{experiment.name}: {phase.name}",
            title=phase.title,
            lasts=phase.lasts,
            timeline=phase.timeline,
            phases=(),
        )
        for phase in experiment.phases
    ]


def versions_of(experiment: Experiment, topic: TopicSpec) -> list[TopicSpec]:
    """The topic as it is in the file, and after each change that the timeline makes to it."""
    found = [topic]
    for step in experiment.timeline:
        if (step.topic or experiment.topics[0].name) != topic.name:
            continue
        if step.fault == "change-mode":
            found.append(_with_mode(found[-1], str(step.parameters.get("mode", "quorum"))))
        if step.fault == "change-settings":
            found.append(_with_settings(found[-1], str(step.parameters.get("settings", ""))))
    return found


def _with_mode(topic: TopicSpec, mode: str) -> TopicSpec:
    kept = {name: value for name, value in topic.settings.items() if name not in WITHOUT_MEANING[mode]}
    return replace(topic, mode=mode, settings=kept)


def _with_settings(topic: TopicSpec, text: str) -> TopicSpec:
    pairs = dict(part.strip().split("=", 1) for part in text.split(",") if "=" in part)
    mode = pairs.pop("replication.mode", topic.mode)
    return replace(topic, mode=mode, settings={**topic.settings, **pairs})


def stretched(experiment: Experiment, session_s: float, notices_ends: bool = True) -> Experiment:
    """For a target that takes longer than Tidelog to notice a silent broker: all faults last longer by the
    same factor, since otherwise they would be over before anything can be seen. ``notices_ends``: whether it
    notices at once, as Tidelog does, that a process has ended.
    """
    usual_s = BROKER_SETTINGS["broker.session.timeout.ms"].default / 1000
    if not notices_ends and all(step.fault in ENDED for step in experiment.timeline):
        usual_s = 0.0
    factor = (session_s + MARGIN_S) / (usual_s + MARGIN_S)
    if factor <= 1:
        return experiment
    steps = tuple(
        replace(step, at=step.at * factor, lasts=None if step.lasts is None else step.lasts * factor)
        for step in experiment.timeline
    )
    return replace(experiment, timeline=steps, lasts=experiment.lasts * factor)


def longest_pause_s(experiment: Experiment) -> float:
    """Between two writes of a load to the same partition, roughly: keys are not spread evenly."""
    partitions = {topic.name: topic.partitions for topic in experiment.topics}
    return max(
        (
            min(load.keys or 1, 10) * partitions[load.topic] / load.rate
            for load in experiment.loads
            if load.rate
        ),
        default=0.0,
    )


def estimate_s(experiment: Experiment) -> float:
    """Of all rounds, roughly."""
    one = experiment.before + experiment.lasts + experiment.after + OVERHEAD_S
    return START_S + experiment.rounds * one


def parties_of(step: FaultStep, now: Casting) -> tuple[tuple[Party, ...], tuple[Party, ...]]:
    if step.between is not None:
        return resolve_between(step.between, now)
    return resolve(step.on, now), ()


def hit_of(step: FaultStep, first: tuple[Party, ...], second: tuple[Party, ...], leader: int) -> Hit:
    """Without times."""
    return Hit(step.fault, _numbers(first), _numbers(second), leader)


def planned_hits(experiment: Experiment, now: Casting) -> list[Hit]:
    """As they will be if nothing has changed before each of them."""
    return [
        hit_of(step, *parties_of(step, now), now.leader)._replace(
            start_s=step.at,
            end_s=step.at if FAULTS[step.fault].is_momentary else end_of(step, experiment.lasts),
        )
        for step in experiment.timeline
    ]


def _numbers(parties: tuple[Party, ...]) -> tuple[int, ...]:
    return tuple(_every(parties))


def _every(parties: tuple[Party, ...]) -> Iterator[int]:
    for party in parties:
        yield CLIENTS if party == CLIENTS_WORD else int(party)
