"""Values of options: lists of brokers, rates, properties files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.planner.years import SOURCES, Rates


def brokers_in(text: str) -> frozenset[int]:
    """``2,3``."""
    try:
        return frozenset(int(each) for each in text.split(",") if each.strip())
    except ValueError:
        raise InvalidCommandLine(f"{text!r} is not a list of broker numbers such as 2,3.") from None


RATE_MAX = 1e6
HOURS_MIN = 1e-4  # a third of a second


def _range(name: str) -> str:
    return f"from {HOURS_MIN:g} to {RATE_MAX:g} hours" if name.endswith("_h") else f"at most {RATE_MAX:g}"


def rates_with(assignments: Sequence[str]) -> Rates:
    rates = Rates()
    for each in assignments:
        name, _, value = each.partition("=")
        if name not in SOURCES:
            raise InvalidCommandLine(f"There is no rate {name!r}; known are {', '.join(SOURCES)}.")
        try:
            number = float(value)
        except ValueError:
            raise InvalidCommandLine(f"--rate {each}: {value!r} is not a number.") from None
        if not isfinite(number) or number < 0 or (number == 0 and name.endswith("_h")):
            raise InvalidCommandLine(f"--rate {each}: the value must be a positive number.")
        if number > RATE_MAX or (name.endswith("_h") and number < HOURS_MIN):
            raise InvalidCommandLine(f"--rate {each}: the value must be {_range(name)}.")
        rates = Rates(**{**rates._asdict(), name: number})
    return rates


def read_properties(path: Path) -> dict[str, str]:
    """A Java properties file."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{path} is not a text file.") from None
    found = {}
    for number, line in _logical(lines):
        name, value = _split(line)
        if value is None:
            raise CommandFailed(f"{path}, line {number}: {line!r} is not NAME=VALUE.")
        found[name] = value
    return found


def _logical(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """With the number of their first line: comments are left out, and a backslash at the end goes on."""
    begun, text = 0, ""
    for number, line in enumerate(lines, 1):
        part = line.strip()
        if not text and (not part or part[0] in "#!"):
            continue
        begun = begun if text else number
        text += part
        if _ENDS_IN_BACKSLASH.search(text) and number < len(lines):
            text = text[:-1]
            continue
        yield begun, text
        text = ""


_ENDS_IN_BACKSLASH = re.compile(r"(?<!\\)(\\\\)*\\$")
_NAME_AND_VALUE = re.compile(r"((?:\\.|[^\\=:\s])+)(?:\s*[=:]\s*|\s+)(.*)")
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _split(line: str) -> tuple[str, str | None]:
    """The end of the name is ``=``, ``:`` or a space, as the format has it."""
    match = _NAME_AND_VALUE.fullmatch(line)
    if match is None:
        return line, None
    name, value = match.groups()
    return _ESCAPED.sub(_plain, name), _ESCAPED.sub(_plain, value)


def _plain(escaped: re.Match[str]) -> str:
    text = escaped[1]
    return chr(int(text[1:], 16)) if len(text) > 1 else _CONTROL.get(text, text)


def options_of(
    named: Mapping[str, object], file: Mapping[str, str], assignments: Sequence[str]
) -> dict[str, str]:
    """The file first, then ``--set``, then the options of the command line."""
    found = dict(file)
    for each in assignments:
        name, sign, value = each.partition("=")
        if not sign or not name.strip():
            raise InvalidCommandLine(f"--set {each}: expected KEY=VALUE.")
        found[name.strip()] = value.strip()
    return found | {name: str(value) for name, value in named.items() if value is not None}
