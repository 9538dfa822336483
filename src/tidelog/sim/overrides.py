"""Parts of a plan as text, for the command line and failure reports.

A value is JSON, read by the type of the plan's field: ``size=3``, ``weather=[0.1,0.0,0.0,400.0]``.
"""

import shlex
from collections.abc import Mapping
from typing import Any, get_type_hints

import msgspec

from tidelog.sim.controllers_run import ControllersPlan
from tidelog.sim.plan import Plan
from tidelog.sim.run import CONTROLLERS


class UnknownOverride(ValueError):
    """A plan has no such field, or the value is invalid."""


def parse(mode: str, override: str) -> tuple[str, Any]:
    """``field=value`` of the plan of this mode."""
    plan = ControllersPlan if mode == CONTROLLERS else Plan
    name, equals, value = override.partition("=")
    types = get_type_hints(plan)
    if not equals or name not in types:
        raise UnknownOverride(f"A plan of mode {mode} has no {name!r}; it has {', '.join(plan._fields)}.")
    try:
        return name, msgspec.json.decode(value, type=types[name])
    except msgspec.DecodeError as error:
        raise UnknownOverride(f"{name} of a plan cannot be {value!r}: {error}.") from error


def parse_numbers(text: str) -> tuple[int, ...]:
    """``3,7,9``; an empty text is no number."""
    try:
        return tuple(int(word) for word in text.split(",") if word.strip())
    except ValueError as error:
        raise UnknownOverride(f"{text!r} is no list of numbers such as 3,7,9.") from error


def command(mode: str, seed: int, wanted: Mapping[str, Any]) -> str:
    """The command that repeats this run."""
    words = ["tidelog", "sim", "--seed", str(seed), "--mode", mode]
    for name, value in wanted.items():
        if name == "size":
            words += ["--brokers", str(value)]
        elif name == "only_faults" and value is not None:
            words += ["--only-faults", ",".join(map(str, value))]
        else:
            words += ["--plan", f"{name}={msgspec.json.encode(value).decode()}"]
    return shlex.join(words)
