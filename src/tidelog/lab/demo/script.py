"""Scripts of a demo: ``2s kill leader; 5s freeze 2; 8s heal``. Times count from when the load is steady."""

import re
from typing import NamedTuple

ACTIONS = ("kill", "freeze", "cut", "heal")
LEADER = "leader"
_STEP = re.compile(r"(\d+(?:\.\d+)?)\s*s?\s+(\w+)(?:\s+(\w+))?")


class ScriptError(Exception):
    """One sentence: what is wrong with it."""


class Step(NamedTuple):
    at_s: float
    action: str
    who: str  # a broker's number, ``leader``, or empty: all, for ``heal``


def parse(text: str, brokers: int) -> list[Step]:
    """In the order of time."""
    steps = [_step(part.strip(), brokers) for part in text.split(";") if part.strip()]
    return sorted(steps, key=lambda step: step.at_s)


def _step(part: str, brokers: int) -> Step:
    match = _STEP.fullmatch(part)
    if match is None or match[2] not in ACTIONS:
        raise ScriptError(
            f"'{part}' is no step of a script; use TIME ACTION BROKER such as '2s kill leader' or '5s heal', "
            f"with the actions {', '.join(ACTIONS)}."
        )
    action, who = match[2], match[3] or ""
    if action != "heal" and not who:
        raise ScriptError(f"'{part}' does not say which broker: {LEADER}, or 1 to {brokers}.")
    if who and who != LEADER and not (who.isdigit() and 1 <= int(who) <= brokers):
        raise ScriptError(f"There is no broker {who}; use {LEADER}, or 1 to {brokers}.")
    return Step(float(match[1]), action, who)
