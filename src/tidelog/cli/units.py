"""Times and sizes as people write them: ``1h``, ``90s``, ``1MB``. A plain number keeps its old meaning."""

import re
from collections.abc import Mapping
from typing import Any

from tidelog.cli.failure import InvalidCommandLine
from tidelog.config.kinds import LONG_MAX

_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")

TIMES = "ms, s, m, h and d"
SIZES = "B, KB, MB, GB and TB (1 KB = 1024 bytes)"


class Duration:
    """For options: ``90``, ``90s``, ``2m`` as seconds."""

    __name__ = "TIME"

    def __call__(self, value: Any) -> float:
        text = str(value).strip()
        try:
            seconds = float(text)
        except ValueError:
            seconds = _parse(text, _MS, "a time", TIMES) / 1000
        if not 0 <= seconds < 1e9:
            raise InvalidCommandLine(f"'{text}' is not a time; write a number with one of {TIMES}.")
        return seconds


class Size:
    """For options: ``1048576`` or ``1MB`` as bytes."""

    __name__ = "SIZE"

    def __call__(self, value: Any) -> int:
        text = str(value).strip()
        return _parse(f"{text}b" if text.isdecimal() else text, _BYTES, "a size", SIZES)


def with_units(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings with values as brokers read them: milliseconds and bytes."""
    return {name: _plain(name, value) for name, value in settings.items()}


def _plain(name: str, value: str) -> str:
    if _QUANTITY.fullmatch(value.strip()) is None:
        return value
    if name.endswith(".ms"):
        return str(_parse(value, _MS, f"a value of {name}", TIMES))
    if name.endswith((".bytes", ".rate")) or ".bytes." in name:
        return str(_parse(value, _BYTES, f"a value of {name}", SIZES))
    return value


def _parse(text: str, units: Mapping[str, int], what: str, allowed: str) -> int:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[2].lower() not in units:
        raise InvalidCommandLine(f"'{text}' is not {what}; write a number with one of {allowed}.")
    amount = float(found[1]) * units[found[2].lower()]
    if amount > LONG_MAX:
        raise InvalidCommandLine(f"'{text}' is too large for {what}.")
    return round(amount)
