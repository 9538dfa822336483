"""Checks that the parts of an experiment fit each other: topics of loads, replicas and brokers, settings,
faults with their parameters and parties.
"""

import re
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
RETENTION_MS_MIN = 3_600_000
_FIXED_OF_PRODUCERS = {  # and the key that says it instead
    "bootstrap.servers": "",
    "acks": "acks",
    "request.required.acks": "acks",
    "enable.idempotence": "idempotent",
    "transactional.id": "transactional",
}
_FIXED_OF_CONSUMERS = {
    "bootstrap.servers": "",
    "group.id": "group",
    "isolation.level": "committed",
    "enable.auto.commit": "",
    "auto.offset.reset": "",
}
_SETTINGS = re.compile(r"\s*[\w.]+\s*=[^,=]*(,\s*[\w.]+\s*=[^,=]*)*")
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
        _check_keeps_records(topic, (*place, "settings"), mistakes)
        _try(
            lambda o=overrides, r=topic.replicas: check_topic_overrides(o, r),
            (*place, "settings", wrong),
            mistakes,
        )


def _check_keeps_records(topic: TopicSpec, place: Place, mistakes: Mistakes) -> None:
    """What is deleted on purpose could not be told from what was lost."""
    if "compact" in topic.settings.get("cleanup.policy", ""):
        mistakes.add((*place, "cleanup.policy"), "compaction deletes records, and they would count as lost")
    if topic.settings.get("retention.bytes", "-1") != "-1":
        mistakes.add((*place, "retention.bytes"), "retention deletes records, and they would count as lost")
    least = topic.settings.get("retention.ms", "-1")
    if least.isdecimal() and int(least) < RETENTION_MS_MIN:
        mistakes.add(
            (*place, "retention.ms"),
            f"records that are deleted during a round would count as lost; use {RETENTION_MS_MIN} or more",
        )


def check_clients(
    loads: tuple[LoadSpec, ...],
    consumers: tuple[ConsumerSpec, ...],
    names: tuple[str, ...],
    mistakes: Mistakes,
) -> None:
    """Their topics and settings; ``names`` are those of all topics."""
    clients: list[tuple[Place, LoadSpec | ConsumerSpec, Mapping[str, str]]] = [
        *((("loads", number), each, _FIXED_OF_PRODUCERS) for number, each in enumerate(loads)),
        *((("consumers", number), each, _FIXED_OF_CONSUMERS) for number, each in enumerate(consumers)),
    ]
    for place, client, fixed in clients:
        if client.topic not in names:
            mistakes.add(
                (*place, "topic"), f"there is no topic {client.topic!r}; there are: {allowed(names)}"
            )
        _check_client(client.settings, fixed, (*place, "settings"), mistakes)
    for number, name in enumerate(names):
        if all(load.topic != name for load in loads):
            mistakes.add(
                ("topics", number, "name"), f"topic {name!r} has no load; add one to [[loads]], or remove it"
            )
    _check_acks(loads, mistakes)


def _check_acks(loads: tuple[LoadSpec, ...], mistakes: Mistakes) -> None:
    for number, load in enumerate(loads):
        if load.acks not in ACKS:
            mistakes.add(("loads", number, "acks"), f"acks is {load.acks!r}; allowed: {allowed(ACKS)}")
        elif load.acks != "all" and (load.idempotent or load.transactional):
            mistakes.add(
                ("loads", number, "acks"),
                f'acks is {load.acks!r}; an idempotent or transactional producer needs acks = "all" '
                "(or idempotent = false)",
            )


def _check_client(
    settings: Mapping[str, Any], fixed: Mapping[str, str], place: Place, mistakes: Mistakes
) -> None:
    """A promise is about the keys of the file, and would be wrong for another client."""
    for name in settings.keys() & fixed.keys():
        instead = f"use the key {fixed[name]}" if fixed[name] else "remove it"
        mistakes.add((*place, name), f"the lab sets {name} itself; {instead}")


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
    _check_change(step, place, mistakes)
    _check_parties(step, kind.is_between, place, brokers, mistakes)


def _check_change(step: Mapping[str, Any], place: Place, mistakes: Mistakes) -> None:
    """What the timeline makes of a topic: its promise depends on it."""
    if step["fault"] == "change-mode" and "mode" in step and str(step["mode"]) not in MODES:
        mistakes.add((*place, "mode"), f"unknown mode {step['mode']!r}; allowed: {allowed(MODES)}")
    if step["fault"] == "change-settings" and not _SETTINGS.fullmatch(str(step.get("settings", ""))):
        mistakes.add((*place, "settings"), 'settings are "name=value", separated by commas')


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
