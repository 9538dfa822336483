"""Settings as people write them: ``key=value`` on the command line and a TOML file on disk.

What a setting means and which values it takes is known to ``tidelog.config`` (or, for a topic's settings, to
the broker that gets them); here they only pass from one writing to the other.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.config import Raw, broker_setting, canonical_name, read_toml
from tidelog.errors import InvalidConfig


def parse_assignments(assignments: Iterable[str], option: str = "--set") -> dict[str, str]:
    """``["a=1", "b=x=y"]`` as a dict; the value may itself contain ``=``. The last one of a name wins."""
    values: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InvalidCommandLine(f"{option} takes KEY=VALUE, but got '{assignment}'.")
        values[name] = value.strip()
    return values


def read_broker_settings(path: Path) -> dict[str, Raw]:
    """The settings of a broker's config file under their dotted names; all of them are known."""
    try:
        settings = read_toml(path.read_text(encoding="utf-8"))
        for name in settings:
            broker_setting(name)
        return settings
    except InvalidConfig as error:
        raise CommandFailed(f"{path}: {error}") from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{path} cannot be read: it is not UTF-8 text.") from None


def merge_broker_settings(*sources: Mapping[str, Raw]) -> dict[str, Raw]:
    """All sources in one, later ones over earlier ones, also where these use other names of a setting."""
    return {canonical_name(name): value for source in sources for name, value in source.items()}


def render_settings(values: Mapping[str, Any], heading: Iterable[str] = ()) -> str:
    """TOML text with one quoted name per line: quoted, so that no name can turn into a table."""
    lines = [f"# {line}" for line in heading]
    lines += [f"{_toml(name)} = {_toml(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    # JSON's strings, numbers, booleans and arrays are TOML's as well; DEL is the one character that TOML
    # wants escaped and JSON does not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
