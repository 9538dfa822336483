"""Traces of one state machine, as text: a command, a line of dashes, what came of it, an empty line.

::

    # A comment stays as it is.
    lead epoch=1 replicas=1,2,3 in_sync=1,2,3
    ----
    BeginEpoch epoch=1 start_offset=0

The commands are written by hand, what came of them by ``pytest tests/golden --rewrite``.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import UnionType
from typing import Any, NamedTuple, get_args, get_type_hints
from uuid import UUID

import msgspec

from tidelog.errors import TidelogError
from tidelog.replication.votes import Tail
from tidelog.types import TopicPartition

DASHES = "----"


class Step(NamedTuple):
    comments: tuple[str, ...]
    command: str
    output: str

    def __str__(self) -> str:
        return "\n".join((*self.comments, self.command, DASHES, self.output))


def parse(text: str) -> list[Step]:
    steps = []
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        comments = tuple(line for line in lines if line.startswith("#"))
        rest = lines[len(comments) :]
        if not rest:
            steps.append(Step(comments, "", ""))
            continue
        command, *output = rest
        steps.append(Step(comments, command, "\n".join(output[1:])))
    return steps


def run(text: str, execute: Callable[[str, Mapping[str, str]], Iterable[str]]) -> str:
    """The same commands with what comes of them now."""
    told = []
    for step in parse(text):
        if not step.command:
            told.append("\n".join(step.comments))
            continue
        name, *words = step.command.split()
        lines = list(execute(name, dict(word.split("=", 1) for word in words)))
        told.append(str(step._replace(output="\n".join(lines) or "nothing")))
    return "\n\n".join(told) + "\n"


# --- arguments ----------------------------------------------------------------------------------------------


def call(method: Callable[..., Any], words: Mapping[str, str], given: Mapping[str, Any]) -> Any:
    """With the words as arguments, read by the types that the method declares; the rest as ``given``."""
    hints = get_type_hints(method)
    arguments = {name: value for name, value in given.items() if name in hints}
    return method(**arguments, **{name: read(word, hints[name]) for name, word in words.items()})


def read(word: str, hint: Any) -> Any:
    if word == "none":
        return None
    if isinstance(hint, UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    origin = getattr(hint, "__origin__", hint)
    if origin in (tuple, frozenset):
        return origin(int(each) for each in word.split(",") if each)
    if hint is bool:
        return {"yes": True, "no": False}[word]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint[word]
    return hint(word)


# --- what came of it ----------------------------------------------------------------------------------------


NAMES: Mapping[type, Callable[[Any], str]] = {
    Enum: lambda value: str(value.name),
    bool: lambda value: "yes" if value else "no",
    UUID: lambda value: f"#{value.int}",
    Tail: lambda value: f"{value.last_epoch}@{value.end_offset}",
    TopicPartition: str,
    TidelogError: lambda value: f"{value.code.name}: {value.message}",
    bytes: lambda value: value.decode() or "''",
}


def told(value: Any) -> str:
    """An effect, a record or a part of them. Fields that are as nobody asked for are left out."""
    for kind, name in NAMES.items():
        if isinstance(value, kind):
            return name(value)
    if isinstance(value, msgspec.Struct):
        defaults = {each.name: each.default for each in msgspec.structs.fields(value)}
        return _fields(value, {name: getattr(value, name) for name in value.__struct_fields__}, defaults)
    if hasattr(value, "_asdict"):
        return _fields(value, value._asdict(), value._field_defaults)
    if isinstance(value, dict):
        return "{" + " ".join(f"{key}={told(each)}" for key, each in value.items()) + "}"
    if isinstance(value, frozenset | set):
        return told(tuple(sorted(value)))
    if isinstance(value, tuple | list):
        return ",".join(map(told, value)) or "()"
    return str(value).lower() if value is None else str(value)


def _fields(value: Any, fields: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    words = [type(value).__name__]
    for name, each in fields.items():
        if name in defaults and defaults[name] == each:
            continue
        if isinstance(each, list | tuple) and not each and name in defaults:
            continue
        inside = told(each)
        words.append(
            f"{name}=({inside})" if " " in inside and not isinstance(each, dict) else f"{name}={inside}"
        )
    return " ".join(words)
