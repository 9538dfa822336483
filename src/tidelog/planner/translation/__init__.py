"""Settings of other systems as settings of Tidelog, and back to Kafka. What has no equivalent is said."""

from collections.abc import Mapping
from typing import NamedTuple

from tidelog.planner.promises import Terms


class Translated(NamedTuple):
    system: str
    terms: Terms
    partitions: int = 0  # 0: not said
    notes: tuple[str, ...] = ()  # what is different, and what has no equivalent
    unknown: tuple[str, ...] = ()  # settings that were given and are not known, each with whether they matter


def number(settings: Mapping[str, str], name: str, default: str, least: int = 1) -> int:
    """ValueError: a sentence for the user."""
    text = settings.get(name, default)
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{name} is {text!r}; it is a number from {least} on.")
    return int(text)


def flag(settings: Mapping[str, str], name: str, default: str) -> bool:
    """ValueError: a sentence for the user. A misspelt value must not be taken for the default."""
    text = settings.get(name, default)
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{name} is {text!r}; it is true or false.")
    return text.lower() == "true"
