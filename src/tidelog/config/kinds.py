"""What values a setting can hold: reading them, writing them back, and saying what is allowed.

Owns the way from what people and clients write (Kafka sends every value as a string; TOML has numbers,
booleans and lists of its own) to a typed value, and back to Kafka's spelling. Knows no setting by name: a
kind raises ``ValueError`` and the table turns that into a refusal that names the key.

Numbers are plain digits with a sign, as in Kafka: Python's ``1_000`` or ``0x10`` would be read here and
misread by every other tool that shows the setting.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, KeysView, Sequence
from enum import IntEnum
from typing import Generic, TypeVar

Raw = str | int | float | bool | Sequence[str]
"""A value as a user wrote it: a string from the protocol or ``--set``, or one of TOML's own types."""

T = TypeVar("T")

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """Kafka's codes for the type of a setting in a DescribeConfigs answer."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ExplainedError(ValueError):
    """A refusal by a kind that knows better than "it must be …" what is wrong."""


class Kind(ABC, Generic[T]):
    """How one sort of value is read, written and described."""

    type: ConfigType
    allowed: str
    """Completes the sentence "it must be …"."""

    @abstractmethod
    def parse(self, raw: Raw) -> T:
        """The typed value; ``ValueError`` when it is not one that is allowed."""

    @abstractmethod
    def format(self, value: T) -> str | None:
        """The value in Kafka's spelling; None where Kafka shows null."""


class Bool(Kind[bool]):
    type = ConfigType.BOOLEAN
    allowed = "true or false"

    def parse(self, raw: Raw) -> bool:
        if isinstance(raw, bool):
            return raw
        text = _text(raw).lower()
        if text not in ("true", "false"):
            raise ValueError(text)
        return text == "true"

    def format(self, value: bool) -> str:
        return "true" if value else "false"


class Whole(Kind[int]):
    """A whole number in a range; ``unit`` only helps people read the documentation."""

    def __init__(self, low: int, high: int = INT_MAX, *, unit: str = "", note: str = "") -> None:
        self.low, self.high, self.unit = low, high, unit
        self.type = ConfigType.INT if high <= INT_MAX else ConfigType.LONG
        span = f"of at least {low}" if high == LONG_MAX else f"from {low} to {high}"
        span = f"a whole number {span}"
        self.allowed = f"{span} ({note})" if note else span

    def parse(self, raw: Raw) -> int:
        if isinstance(raw, bool):
            raise ValueError(raw)
        if isinstance(raw, int):
            value = raw
        else:
            text = _text(raw)
            # Twenty characters hold every 64-bit number; longer input is refused before it is converted.
            if len(text) > 20 or not _WHOLE.fullmatch(text):
                raise ValueError(text)
            value = int(text)
        if not self.low <= value <= self.high:
            raise ValueError(value)
        return value

    def format(self, value: int) -> str:
        return str(value)


class Real(Kind[float]):
    type = ConfigType.DOUBLE

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self.allowed = f"a number from {low:g} to {high:g}"

    def parse(self, raw: Raw) -> float:
        if isinstance(raw, bool):
            raise ValueError(raw)
        value = float(raw) if isinstance(raw, int | float) else _real(_text(raw))
        if not (math.isfinite(value) and self.low <= value <= self.high):
            raise ValueError(value)
        return value

    def format(self, value: float) -> str:
        return repr(value)


class ThrottledReplicas(Kind[str]):
    """``partition:broker`` pairs, or a star."""

    type = ConfigType.LIST
    allowed = "pairs like 0:1,0:2 (partition:broker), or *"

    def parse(self, raw: Raw) -> str:
        text = ",".join(map(str, raw)) if isinstance(raw, list) else str(raw)
        pairs = [part.strip() for part in text.split(",") if part.strip()]
        if pairs != ["*"] and not all(re.fullmatch(r"[0-9]{1,9}:[0-9]{1,9}", pair) for pair in pairs):
            raise ValueError(text)
        return ",".join(pairs)

    def format(self, value: str) -> str:
        return value


class Text(Kind[str]):
    type = ConfigType.STRING

    def __init__(self, allowed: str = "a string that is not empty", pattern: str = r".+") -> None:
        self.allowed = allowed
        self._pattern = re.compile(pattern)

    def parse(self, raw: Raw) -> str:
        text = _text(raw)
        if not self._pattern.fullmatch(text):
            raise ValueError(text)
        return text

    def format(self, value: str) -> str:
        return value


class Secret(str):
    """A password or key. Its ``repr``, which ends up in logs and error messages, does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[hidden]"


class Password(Kind[Secret]):
    """A value that is never shown."""

    type = ConfigType.PASSWORD
    allowed = "a string that is not empty"

    def parse(self, raw: Raw) -> Secret:
        if not isinstance(raw, str) or not raw:
            raise ValueError("empty")
        return Secret(raw)  # As it is: a space may be a part of it.

    def format(self, value: Secret) -> str:
        return str.__str__(value)


class Choice(Kind[str]):
    """One word out of a few."""

    type = ConfigType.STRING

    def __init__(self, *choices: str) -> None:
        self.choices: Collection[str] = choices
        self.allowed = "one of " + ", ".join(choices) if len(choices) > 1 else choices[0]

    def parse(self, raw: Raw) -> str:
        text = _text(raw)
        if text not in self.choices:
            raise ValueError(text)
        return text

    def format(self, value: str) -> str:
        return value


class KeyOf(Choice):
    """The name of a row of a table."""

    def __init__(self, table: KeysView[str]) -> None:
        super().__init__(*table)
        self.choices = table  # A row may be added later.


class ChoiceSet(Kind[frozenset[str]]):
    """Words out of a few, in any order, separated by commas; at least one, unless it ``may_be_empty``."""

    type = ConfigType.LIST

    def __init__(self, *choices: str, may_be_empty: bool = False) -> None:
        self.choices = choices
        self.may_be_empty = may_be_empty
        self.allowed = "one or more of " + ", ".join(choices) + ", separated by commas"
        if may_be_empty:
            self.allowed += ", or empty"

    def parse(self, raw: Raw) -> frozenset[str]:
        words = frozenset(split_list(raw))
        if not (words or self.may_be_empty) or not words <= set(self.choices):
            raise ValueError(raw)
        return words

    def format(self, value: frozenset[str]) -> str:
        return ",".join(choice for choice in self.choices if choice in value)


class Words(Kind[tuple[str, ...]]):
    """Words separated by commas, in an order that matters."""

    type = ConfigType.LIST

    def __init__(self, allowed: str, pattern: str = r"[A-Za-z0-9_.+-]+") -> None:
        self.allowed = allowed
        self._pattern = re.compile(pattern)

    def parse(self, raw: Raw) -> tuple[str, ...]:
        words = tuple(split_list(raw))
        if not words or not all(map(self._pattern.fullmatch, words)):
            raise ValueError(raw)
        return words

    def format(self, value: tuple[str, ...]) -> str | None:
        return ",".join(value) or None


class Nullable(Kind[T | None]):
    """A setting that may stay unset: Kafka shows it as null, and something else decides."""

    def __init__(self, kind: Kind[T]) -> None:
        self.kind = kind
        self.type = kind.type
        self.allowed = kind.allowed

    def parse(self, raw: Raw) -> T | None:
        return self.kind.parse(raw)

    def format(self, value: T | None) -> str | None:
        return None if value is None else self.kind.format(value)


def split_list(raw: Raw) -> list[str]:
    """The words of a list setting: a TOML list, or one string with commas."""
    if isinstance(raw, str):
        return [word for word in (part.strip() for part in raw.split(",")) if word]
    if isinstance(raw, Sequence) and all(isinstance(part, str) for part in raw):
        return [part.strip() for part in raw]
    raise ValueError(raw)


_WHOLE = re.compile(r"[+-]?[0-9]+")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _text(raw: Raw) -> str:
    if not isinstance(raw, str):
        raise ValueError(raw)
    return raw.strip()


def _real(text: str) -> float:
    if not _REAL.fullmatch(text):
        raise ValueError(text)
    return float(text)
