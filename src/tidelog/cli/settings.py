"""Settings as people write them: ``key=value`` on the command line and a TOML file on disk.

Knows nothing of what a setting means; names and values are checked by ``tidelog.config`` (or, for a topic's
settings, by the broker that gets them).
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidelog.cli.failure import CommandFailed


def parse_assignments(assignments: Iterable[str], option: str = "--set") -> dict[str, str]:
    """``["a=1", "b=x=y"]`` as a dict; the value may itself contain ``=``. The last one of a name wins."""
    values: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise CommandFailed(
                f"{option} takes key=value, for example {option} a=b, but got '{assignment}'."
            )
        values[name] = value.strip()
    return values


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of a TOML file under their dotted names, however its author wrote the dots."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{path} is not a valid TOML file: {error}.") from None
    return flatten(table)


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``a.b = 1``, ``"a.b" = 1`` and ``[a]`` with ``b = 1`` all mean the setting ``a.b``."""
    values: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            values.update(flatten(value, f"{prefix}{name}."))
        else:
            values[prefix + name] = value
    return values


def render_settings(values: Mapping[str, Any], heading: Iterable[str] = ()) -> str:
    """TOML text with one quoted name per line: quoted, so that no name can turn into a table."""
    lines = [f"# {line}" for line in heading]
    lines += [f"{_toml(name)} = {_toml(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    # JSON's strings, numbers, booleans and arrays are TOML's as well; DEL is the one character that TOML
    # wants escaped and JSON does not.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
