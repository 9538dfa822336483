"""Options of the data source: case-insensitive, converted to values, refused by name.

Owns the conversion of an option's text and its error messages; which options exist is up to their readers.
Spark passes names in lower case.
"""

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

KAFKA_PREFIX = "kafka."


class OptionError(ValueError):
    """An option that is missing, unknown or has an invalid value; the message names it."""


class Options:
    """The options of one reader or writer."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def names(self) -> list[str]:
        """In lower case."""
        return list(self._given)

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._given.get(name.lower())
        return default if value is None else value.strip()

    def required(self, name: str, example: str) -> str:
        value = self.text(name)
        if not value:
            raise OptionError(f"Option {name} is missing; it is needed, for example {name}={example}.")
        return value

    def choice(self, name: str, allowed: Sequence[str], default: str) -> str:
        value = self.text(name, default)
        for one in allowed:
            if value is not None and value.lower() == one.lower():
                return one
        raise OptionError(f"Option {name} is {value!r}; allowed: {', '.join(allowed)}.")

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def number(
        self, name: str, default: int | None, *, least: int = 0, most: int | None = None
    ) -> int | None:
        """A whole number; None only if that is the default."""
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            to = f" to {most}" if most is not None else " or more"
            raise OptionError(f"Option {name} is {value!r}; allowed: a whole number, {least}{to}.")
        return number

    def whole(self, name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
        number = self.number(name, default, least=least, most=most)
        return default if number is None else number

    def duration_ms(self, name: str, default_ms: int) -> int:
        """As Spark writes times: ``500ms``, ``30s``, ``15m``, ``2h``; a bare number is milliseconds."""
        value = self.text(name)
        if value is None:
            return default_ms
        digits = value.rstrip("abcdefghijklmnopqrstuvwxyz ").strip()
        unit = value[len(digits) :].strip()
        if not digits.isdecimal() or unit not in _UNITS_MS:
            raise OptionError(f"Option {name} is {value!r}; allowed: a time such as 500ms, 30s, 15m or 2h.")
        return int(digits) * _UNITS_MS[unit]

    def per_partition(self, name: str, *, least: int) -> dict[tuple[str, int], int]:
        """``{"topic": {"0": 23, "1": -2}}`` as numbers by topic and partition."""
        example = '{"orders":{"0":23,"1":-2}}'
        found: dict[tuple[str, int], int] = {}
        for topic, partitions in self._object(name, example).items():
            if not isinstance(partitions, Mapping):
                raise self._not(name, example)
            for partition, number in partitions.items():
                if not str(partition).isdecimal() or type(number) is not int or number < least:
                    raise self._not(name, example)
                found[topic, int(partition)] = number
        return found

    def partition_lists(self, name: str) -> list[tuple[str, int]]:
        """``{"topic": [0, 1]}`` as pairs."""
        example = '{"orders":[0,1]}'
        found: list[tuple[str, int]] = []
        for topic, partitions in self._object(name, example).items():
            if not isinstance(partitions, list) or not all(
                type(one) is int and one >= 0 for one in partitions
            ):
                raise self._not(name, example)
            found += [(topic, partition) for partition in partitions]
        if not found:
            raise self._not(name, example)
        return found

    def texts(self, name: str, example: str) -> dict[str, str]:
        """A JSON object whose values are texts."""
        found = self._object(name, example)
        if not all(isinstance(value, str) for value in found.values()):
            raise self._not(name, example)
        return found

    def _object(self, name: str, example: str) -> dict[str, Any]:
        try:
            value = json.loads(self.text(name) or "")
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self._not(name, example)
        return value

    def _not(self, name: str, example: str) -> OptionError:
        return OptionError(f"Option {name} is {self.text(name)!r}; allowed: JSON such as {example}.")

    def refuse_unknown(self, known: Iterable[str]) -> None:
        """A misspelt option would otherwise be ignored silently. Options that begin with ``kafka.`` are not
        checked.
        """
        names = {name.lower(): name for name in known}
        for name in self._given:
            if name not in names and not name.startswith(KAFKA_PREFIX):
                raise OptionError(
                    f"There is no option {name!r}; there are {', '.join(sorted(names.values()))}."
                )


_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Once per process: a setting is read again for every micro-batch."""
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=3)
