"""Checks the shape of a document against the fields of :mod:`tidelog.lab.experiment.model`: keys, types,
ranges. Collects mistakes, does not stop at the first.

What the values mean to each other is checked in :mod:`tidelog.lab.experiment.meaning`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

import msgspec

from tidelog.lab.experiment.lines import Lines, Place


class ExperimentError(Exception):
    """Mistakes in a file, one sentence each: ``file:line: what is wrong; what is allowed``."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(self.mistakes))


class Mistakes:
    """Those of one file."""

    def __init__(self, file: str, lines: Lines) -> None:
        self._file = file
        self._lines = lines
        self._found: list[tuple[int, str]] = []

    def add(self, place: Place, sentence: str) -> None:
        self._found.append((self._lines.of(place), sentence))

    def raise_any(self) -> None:
        if self._found:
            raise ExperimentError(f"{self._file}:{line}: {text}" for line, text in sorted(self._found))


_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    bool: "true or false",
    dict: "a table",
    tuple: "a list of texts",
}

# Least and most, by key; of all tables, because a key means the same in each.
_RANGES: dict[str, tuple[float, float]] = {
    "brokers": (1, 9),
    "controllers": (0, 9),
    "partitions": (1, 1000),
    "replicas": (1, 9),
    "producers": (1, 64),
    "members": (1, 64),
    "rate": (0, 10_000_000),
    "size": (24, 1_000_000),
    "transactional": (0, 100_000),
    "keys": (0, 10_000_000),
    "rounds": (1, 100_000),
    "before": (0, 3600),
    "after": (0, 3600),
    "at": (0, 86_400),
    "lasts": (0, 86_400),
    "lost_max": (0, float("inf")),
    "writes_stand_still_max_s": (0, float("inf")),
    "reads_stand_still_max_s": (0, float("inf")),
}


def allowed(names: Iterable[str]) -> str:
    return ", ".join(names)


def fields_of(model: type[msgspec.Struct], without: Iterable[str] = ()) -> dict[str, type]:
    """Key → the type that its value must have."""
    hints = get_type_hints(model)
    found = {}
    for field in msgspec.structs.fields(model):
        if field.name not in without:
            found[field.name] = _plain(hints[field.name])
    return found


def _plain(hint: Any) -> type:
    """``float | None`` → float, ``tuple[str, ...]`` → tuple."""
    options = [each for each in getattr(hint, "__args__", ()) if each is not type(None)]
    if type(None) in getattr(hint, "__args__", ()) and options:
        return _plain(options[0])
    origin = getattr(hint, "__origin__", hint)
    return origin if isinstance(origin, type) else str


def checked(
    table: Mapping[str, Any],
    fields: Mapping[str, type],
    place: Place,
    mistakes: Mistakes,
    needed: Iterable[str] = (),
) -> dict[str, Any]:
    """The values that can be used; a mistake is noted for each of the others."""
    heading = _heading(place)
    values = {}
    for key, value in table.items():
        if key not in fields:
            mistakes.add((*place, key), f"unknown key {key!r}{heading}; allowed: {allowed(fields)}")
        elif (fitted := fit(value, fields[key])) is None:
            mistakes.add((*place, key), f"{key} is {value!r}; it must be {_WORDS[fields[key]]}")
        elif (wrong := _out_of_range(key, fitted)) is not None:
            mistakes.add((*place, key), wrong)
        else:
            values[key] = fitted
    for key in needed:
        if key not in table:
            mistakes.add(place, f"{key} is missing{heading}")
    return values


def fit(value: Any, kind: type) -> Any:
    """The value as this type; None if it is of another one."""
    if kind is tuple:
        is_list = isinstance(value, list) and all(isinstance(part, str) for part in value)
        return tuple(value) if is_list else None
    if isinstance(value, bool) and kind is not bool:
        return None
    if kind is float and isinstance(value, int):
        return float(value)
    return value if isinstance(value, kind) else None


def _out_of_range(key: str, value: Any) -> str | None:
    least, most = _RANGES.get(key, (float("-inf"), float("inf")))
    if not isinstance(value, int | float) or isinstance(value, bool) or least <= value <= most:
        return None
    upper = f" to {most:g}" if most != float("inf") else " or more"
    return f"{key} is {value}; allowed: {least:g}{upper}"


def _heading(place: Place) -> str:
    names = [str(part) for part in place if isinstance(part, str)]
    if not names:
        return ""
    brackets = ("[[", "]]") if any(isinstance(part, int) for part in place) else ("[", "]")
    return f" in {brackets[0]}{'.'.join(names)}{brackets[1]}"
