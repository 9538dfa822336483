"""Reads an experiment from TOML. Every mistake is named with file, line and what is allowed.

Owns the layout of the file: keys of the experiment at the top, ``[cluster]``, ``[[topics]]``, ``[[loads]]``,
``[[consumers]]``, ``[[timeline]]`` (or ``[[phases]]`` with ``[[phases.timeline]]``), ``[checks]``. The
keys are the fields of
:mod:`tidelog.lab.experiment.model`. Parameters of a fault stand beside its other keys. Without ``[[loads]]``
and ``[[consumers]]`` every topic gets the usual ones.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tidelog.lab.experiment.checking import ExperimentError, Mistakes, checked, fields_of
from tidelog.lab.experiment.lines import Lines, Place
from tidelog.lab.experiment.meaning import (
    STEP_KEYS,
    check_clients,
    check_cluster,
    check_step,
    check_times,
    check_topics,
)
from tidelog.lab.experiment.model import (
    Checks,
    ClusterSpec,
    ConsumerSpec,
    Experiment,
    FaultStep,
    LoadSpec,
    Phase,
    TopicSpec,
)

S = TypeVar("S", bound=msgspec.Struct)

_TABLES = ("cluster", "checks")
_LISTS = ("topics", "loads", "consumers", "timeline", "phases")
_TOP = fields_of(Experiment, without=("name", "source", *_TABLES, *_LISTS))
_STEP = fields_of(FaultStep, without=("parameters",))
_PHASE = fields_of(Phase)


def read_file(path: Path) -> Experiment:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ExperimentError([f"{path}:1: the file is not UTF-8 text"]) from None
    except OSError as error:
        raise ExperimentError([f"{path} cannot be read: {error.strerror or error}"]) from None
    return read_text(text, path.stem, str(path))


def read_text(text: str, name: str, file: str) -> Experiment:
    """``file`` is what mistakes are named with."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError([_syntax(file, str(error))]) from None
    reading = _Reading(document, Mistakes(file, Lines(text)))
    return reading.experiment(name, text)


def _syntax(file: str, error: str) -> str:
    place = re.search(r"\(at line (\d+)", error)
    what = re.sub(r"\s*\(at .*\)", "", error)
    return f"{file}:{place[1] if place else 1}: not valid TOML: {what}"


class _Reading:
    def __init__(self, document: Mapping[str, Any], mistakes: Mistakes) -> None:
        self._document = document
        self._mistakes = mistakes

    def experiment(self, name: str, text: str) -> Experiment:
        top = checked(
            {key: value for key, value in self._document.items() if key not in (*_TABLES, *_LISTS)},
            {**_TOP, **dict.fromkeys((*_TABLES, *_LISTS), dict)},
            (),
            self._mistakes,
            needed=("title",),
        )
        cluster = self._table("cluster", ClusterSpec)
        check_cluster(cluster, self._mistakes)
        topics = tuple(_settings_as_text(each) for each in self._list("topics", TopicSpec)) or (TopicSpec(),)
        check_topics(topics, cluster.brokers, self._mistakes)
        names = tuple(topic.name for topic in topics)
        loads = self._list("loads", LoadSpec) or tuple(LoadSpec(topic=each) for each in names)
        consumers = self._consumers(names)
        check_clients(loads, consumers, names, self._mistakes)
        lasts = top.get("lasts", Experiment(name="", title="").lasts)
        timeline = self._timeline(("timeline",), lasts, cluster.brokers, names)
        phases = self._phases(cluster.brokers, names)
        checks = self._table("checks", Checks)
        self._mistakes.raise_any()
        return Experiment(
            name=name, **top, cluster=cluster, topics=topics, loads=loads, consumers=consumers,
            timeline=timeline, phases=phases, checks=checks, source=text,
        )  # fmt: skip

    def _consumers(self, names: tuple[str, ...]) -> tuple[ConsumerSpec, ...]:
        """``consumers = []`` means none."""
        if "consumers" in self._document:
            return self._list("consumers", ConsumerSpec)
        return tuple(ConsumerSpec(topic=each, group=f"readers-of-{each}") for each in names)

    def _phases(self, brokers: int, topics: tuple[str, ...]) -> tuple[Phase, ...]:
        found = []
        for number, table in enumerate(self._tables(("phases",))):
            place = ("phases", number)
            usual = {key: value for key, value in table.items() if key != "timeline"}
            values = checked(usual, _PHASE, place, self._mistakes, needed=("name", "title"))
            lasts = values.get("lasts", Phase(name="", title="").lasts)
            timeline = self._timeline((*place, "timeline"), lasts, brokers, topics)
            if "name" in values and "title" in values:
                found.append(Phase(**values, timeline=timeline))
        if found and "timeline" in self._document:
            self._mistakes.add(("timeline",), "an experiment has a timeline or phases, not both")
        return tuple(found)

    def _timeline(
        self, where: Place, lasts: float, brokers: int, topics: tuple[str, ...]
    ) -> tuple[FaultStep, ...]:
        steps = []
        for number, table in enumerate(self._tables(where)):
            place = (*where, number)
            usual = {key: value for key, value in table.items() if key in STEP_KEYS}
            values = checked(usual, _STEP, place, self._mistakes, needed=("at", "fault"))
            check_step(table, place, brokers, topics, self._mistakes)
            check_times(values, place, lasts, self._mistakes)
            parameters = {key: value for key, value in table.items() if key not in STEP_KEYS}
            if "at" in values and "fault" in values:
                steps.append(FaultStep(**values, parameters=parameters))
        return tuple(sorted(steps, key=lambda step: step.at))

    def _table(self, key: str, model: type[S]) -> S:
        table = self._document.get(key, {})
        if not isinstance(table, Mapping):
            self._mistakes.add((key,), f"{key} must be a table: [{key}]")
            table = {}
        return model(**checked(_acks_as_text(_flat(table)), fields_of(model), (key,), self._mistakes))

    def _list(self, key: str, model: type[S]) -> tuple[S, ...]:
        return tuple(
            model(**checked(_acks_as_text(_flat(table)), fields_of(model), (key, number), self._mistakes))
            for number, table in enumerate(self._tables((key,)))
        )

    def _tables(self, where: Place) -> list[Mapping[str, Any]]:
        found: Any = self._document
        for part in where:
            found = found[part] if isinstance(part, int) else found.get(part, [])
        if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
            name = ".".join(part for part in where if isinstance(part, str))
            self._mistakes.add(where, f"{name} must be tables: [[{name}]]")
            return []
        return found


def _flat(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Names of settings have dots, which TOML takes for tables unless they are quoted."""
    settings = table.get("settings")
    return {**table, "settings": dict(_dotted(settings))} if isinstance(settings, Mapping) else table


def _dotted(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        found += _dotted(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, value)]
    return found


def _acks_as_text(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """``acks = 1`` is what everybody writes first."""
    acks = table.get("acks")
    return {**table, "acks": str(acks)} if type(acks) is int else table


def _settings_as_text(topic: TopicSpec) -> TopicSpec:
    written: Mapping[str, object] = topic.settings  # as in the file; the model has texts
    settings = {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in written.items()
    }
    return msgspec.structs.replace(topic, settings=settings)
