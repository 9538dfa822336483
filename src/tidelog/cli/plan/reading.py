"""Values of options: lists of brokers, rates, properties files."""

from collections.abc import Mapping, Sequence
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
    """A Java properties file, as far as server configurations use the format."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{path} is not a text file.") from None
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, sign, value = text.partition("=")
        if not sign:
            raise CommandFailed(f"{path}, line {number}: {text!r} is not NAME=VALUE.")
        found[name.strip()] = value.strip()
    return found


def options_of(
    named: Mapping[str, object], file: Mapping[str, str], assignments: Sequence[str]
) -> dict[str, str]:
    """The file first, then ``--set``, then the options of the command line."""
    found = dict(file)
    for each in assignments:
        name, sign, value = each.partition("=")
        if not sign:
            raise InvalidCommandLine(f"--set {each}: expected KEY=VALUE.")
        found[name.strip()] = value.strip()
    return found | {name: str(value) for name, value in named.items() if value is not None}
