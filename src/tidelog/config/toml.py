"""Settings written as TOML: tables nest or names are dotted, and ``log.segment.bytes`` comes out either way.

Reads text only; the values' meaning is the tables' business.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from tidelog.config.kinds import Raw
from tidelog.errors import InvalidConfig


def read_toml(text: str) -> dict[str, Raw]:
    """Values by dotted name, in the file's order."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"The config file is not valid TOML: {error}.{_hint(error)}") from None
    values: dict[str, Raw] = {}
    _flatten(document, "", values)
    return values


def _hint(error: Exception) -> str:
    # max.connections and max.connections.per.ip cannot both be bare: the first would be value and table.
    if "overwrite" in str(error):
        return (
            ' Is a name set twice? If one name continues another, put both in quotes: "max.connections" = 9.'
        )
    if "declare" in str(error) or "mutate" in str(error):
        return " Put names with the same beginning in one table, or write all of them with dots, not both."
    return ""


def _flatten(table: Mapping[str, Any], prefix: str, values: dict[str, Raw]) -> None:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, Mapping):
            _flatten(value, name + ".", values)
        elif name in values:
            raise InvalidConfig(f"{name} is set twice in the config file.")
        elif isinstance(value, str | int | float | bool) or _is_list_of_text(value):
            values[name] = value
        else:
            raise InvalidConfig(
                f"{name} is refused: it must be a string, a number, true, false or a list of strings."
            )


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)
