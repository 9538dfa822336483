"""Settings written as TOML: tables nest or names are dotted, and ``log.segment.bytes`` comes out either way.

Reads and writes text only; the values' meaning is the tables' business.
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
    # max.connections and max.connections.per.ip cannot both be bare keys: the first would be value and table at once.
    if "overwrite" in str(error) or "inline" in str(error) or "declare" in str(error):
        return ' Where one name continues another, put both in quotes: "max.connections" = 100.'
    return ""


def _flatten(table: Mapping[str, Any], prefix: str, values: dict[str, Raw]) -> None:
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, Mapping):
            _flatten(value, name + ".", values)
        elif name in values:
            raise InvalidConfig(f"{name} is given twice in the config file.")
        elif isinstance(value, str | int | float | bool) or _is_list_of_text(value):
            values[name] = value
        else:
            raise InvalidConfig(
                f"{name} is refused: it must be a text, a number, true, false or a list of texts."
            )


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def write_toml(values: Mapping[str, Raw]) -> str:
    """The text of a config file with these values; every name is quoted, so that none can clash with another."""
    return "".join(f"{_quoted(name)} = {_literal(value)}\n" for name, value in values.items())


def _literal(value: Raw) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    return "[" + ", ".join(map(_quoted, value)) + "]"


def _quoted(text: str) -> str:
    escaped = "".join(_escape(character) for character in text)
    return f'"{escaped}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"
