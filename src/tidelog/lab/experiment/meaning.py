"""Checks that the parts of an experiment fit each other: topics of loads, replicas and brokers, settings,
faults with their parameters and parties.
"""

from collections.abc import Mapping
from typing import Any

from tidelog.config import BROKER_SETTINGS, MODES, check_topic_overrides
from tidelog.errors import TidelogError
from tidelog.lab.experiment.checking import Mistakes, allowed, fit
from tidelog.lab.experiment.lines import Place
from tidelog.lab.experiment.model import ClusterSpec, ConsumerSpec, LoadSpec, TopicSpec
from tidelog.lab.experiment.parties import mistakes_in
from tidelog.lab.faults.catalog import FAULTS

ACKS = ("all", "1", "0")
STEP_KEYS = ("at", "fault", "on", "between", "lasts", "topic")
_FIXED = ("node.id", "listeners", "log.dirs", "controller.quorum.voters")  # the lab's own


def check_cluster(cluster: ClusterSpec, mistakes: Mistakes) -> None:
    if cluster.controllers > cluster.brokers:
        mistakes.add(
            ("cluster", "controllers"),
            f"controllers is {cluster.controllers}; allowed: 0 to {cluster.brokers}, the number of brokers",
        )
    for name, value in cluster.settings.items():
        place = ("cluster", "settings", name)
        if name in _FIXED:
            mistakes.add(place, f"the lab sets {name} itself; remove it")
        elif name not in BROKER_SETTINGS:
            mistakes.add(place, f"unknown broker setting {name!r}; docs/configuration.md lists them")
        else:
            _try(lambda name=name, value=value: BROKER_SETTINGS[name].parse(_text(value)), place, mistakes)


def check_topics(topics: tuple[TopicSpec, ...], brokers: int, mistakes: Mistakes) -> None:
    names = [topic.name for topic in topics]
    for number, topic in enumerate(topics):
        place: Place = ("topics", number)
        if names.index(topic.name) != number:
            mistakes.add((*place, "name"), f"there are two topics {topic.name!r}; names must differ")
        if topic.mode not in MODES:
            mistakes.add((*place, "mode"), f"unknown mode {topic.mode!r}; allowed: {allowed(MODES)}")
            continue
        if topic.replicas > brokers:
            mistakes.add((*place, "replicas"), f"replicas is {topic.replicas}; there are {brokers} brokers")
            continue
        overrides = {"replication.mode": topic.mode, **topic.settings}
        wrong = next(iter(topic.settings), "mode")
        _try(
            lambda o=overrides, r=topic.replicas: check_topic_overrides(o, r),
            (*place, "settings", wrong),
            mistakes,
        )


def check_loads(
    loads: tuple[LoadSpec, ...],
    consumers: tuple[ConsumerSpec, ...],
    names: tuple[str, ...],
    mistakes: Mistakes,
) -> None:
    for table, topics in (
        ("loads", [load.topic for load in loads]),
        ("consumers", [consumer.topic for consumer in consumers]),
    ):
        for number, topic in enumerate(topics):
            if topic not in names:
                mistakes.add(
                    (table, number, "topic"), f"there is no topic {topic!r}; there are: {allowed(names)}"
                )
    for number, load in enumerate(loads):
        if load.acks not in ACKS:
            mistakes.add(("loads", number, "acks"), f"acks is {load.acks!r}; allowed: {allowed(ACKS)}")
        elif load.acks != "all" and (load.idempotent or load.transactional):
            mistakes.add(
                ("loads", number, "acks"),
                f'acks is {load.acks!r}; an idempotent or transactional producer needs acks = "all" '
                "(or idempotent = false)",
            )


def check_step(
    step: Mapping[str, Any], place: Place, brokers: int, topics: tuple[str, ...], mistakes: Mistakes
) -> None:
    """``step`` as it is in the file: parameters are keys beside the others."""
    kind = FAULTS.get(step.get("fault", ""))
    if kind is None:
        if isinstance(step.get("fault"), str):
            mistakes.add((*place, "fault"), f"unknown fault {step['fault']!r}; allowed: {allowed(FAULTS)}")
        return
    types = {parameter.name: parameter.kind for parameter in kind.parameters}
    for key in step.keys() - set(STEP_KEYS):
        if key not in types:
            takes = allowed((*STEP_KEYS, *types))
            mistakes.add((*place, key), f"unknown key {key!r} of fault {kind.name}; allowed: {takes}")
        elif fit(step[key], types[key]) is None:
            mistakes.add((*place, key), f"{key} is {step[key]!r}; it must be of type {types[key].__name__}")
    if kind.is_momentary and "lasts" in step:
        mistakes.add((*place, "lasts"), f"{kind.name} happens in a moment; remove lasts")
    if step.get("topic", topics[0]) not in topics:
        mistakes.add((*place, "topic"), f"there is no topic {step['topic']!r}; there are: {allowed(topics)}")
    _check_parties(step, kind.is_between, place, brokers, mistakes)


def _check_parties(
    step: Mapping[str, Any], is_between: bool, place: Place, brokers: int, mistakes: Mistakes
) -> None:
    wrong, right = ("on", "between") if is_between else ("between", "on")
    if wrong in step:
        example = '["leader", "all"]' if is_between else '"leader"'
        mistakes.add((*place, wrong), f"{step['fault']} has no {wrong!r}; use {right} = {example}")
        return
    words = step.get(right)
    if is_between and (not isinstance(words, list) or len(words) != 2):
        mistakes.add((*place, right), f'{step["fault"]} is between two: between = ["leader", "all"]')
        return
    for one in words if isinstance(words, list) else [words or "leader"]:
        if isinstance(one, str) and (sentence := mistakes_in(one, brokers)):
            mistakes.add((*place, right), sentence)


def check_times(step: Mapping[str, Any], place: Place, lasts: float, mistakes: Mistakes) -> None:
    end = step.get("at", 0) + step.get("lasts", 0)
    if end > lasts:
        mistakes.add(
            (*place, "at"), f"this ends {end:g} s after the start, but lasts of the timeline is {lasts:g}"
        )


def _try(check: Any, place: Place, mistakes: Mistakes) -> None:
    try:
        check()
    except TidelogError as error:
        mistakes.add(place, str(error).rstrip("."))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
