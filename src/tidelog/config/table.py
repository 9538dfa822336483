"""The table of settings: one row per setting, kept where its typed attribute is declared.

A row is a field of ``TopicConfig`` or ``BrokerConfig``: the attribute's name gives the setting's name (dots
for underscores), ``row(...)`` gives everything else, and the type checker makes sure that attribute, kind
and default agree. What reads settings, describes them to clients or prints their documentation walks these
rows; adding a setting is adding one row.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn, TypeVar

from tidelog.config.kinds import ConfigType, ExplainedError, Kind, Raw
from tidelog.errors import InvalidConfig

T = TypeVar("T")

HIDDEN = "[hidden]"  # instead of a secret

_ROW = "row"


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that gives a topic setting its default; ``factor`` turns its unit into the topic's."""

    name: str
    factor: int = 1

    @property
    def attribute(self) -> str:
        return attribute_of(self.name)

    def scale(self, value: Any) -> Any:
        # Below zero a limit means "none" in every unit.
        return value if self.factor == 1 or value < 0 else value * self.factor


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting with everything there is to say about it."""

    name: str
    attribute: str
    default: Any
    kind: Kind[Any]
    doc: str  # One sentence.
    dynamic: bool  # Changes take effect on a running broker.
    ours: bool  # Kafka has no setting of this name.
    aliases: tuple[str, ...]  # Other names for the same setting.
    synonyms: tuple[Synonym, ...]  # Of a topic setting: what gives its default; the first that is set wins.
    unset: str  # What happens while the value is null, for people.
    section: str  # Heading that starts with this row in the documentation, or "".
    per_listener: bool = False  # ``listener.name.<name>.`` before the name gives it for one listener.

    def parse(self, raw: Raw) -> Any:
        try:
            return self.kind.parse(raw)
        except ValueError as reason:
            refuse(self.name, HIDDEN if self.secret else raw, self.kind.allowed, reason)

    @property
    def secret(self) -> bool:
        """Whether its value is never shown."""
        return self.kind.type is ConfigType.PASSWORD

    def format(self, value: Any) -> str | None:
        return self.kind.format(value)

    def spell(self, raw: Raw) -> str:
        """A value as a user wrote it, checked, in Kafka's spelling."""
        return self.kind.format(self.parse(raw)) or ""

    @property
    def default_text(self) -> str | None:
        return self.kind.format(self.default)


def row(
    kind: Kind[T],
    default: T,
    doc: str,
    *,
    dynamic: bool = False,
    ours: bool = False,
    aliases: tuple[str, ...] = (),
    synonyms: tuple[Synonym, ...] = (),
    unset: str = "",
    section: str = "",
    per_listener: bool = False,
) -> T:
    """Declare a setting as a dataclass field."""
    told = {
        "kind": kind,
        "doc": doc,
        "dynamic": dynamic,
        "ours": ours,
        "aliases": aliases,
        "synonyms": synonyms,
        "unset": unset,
        "section": section,
        "per_listener": per_listener,
    }
    return field(default=default, metadata={_ROW: told})


def settings_of(table: Any) -> dict[str, Setting]:
    """All settings that a dataclass declares, by name, in the order of their declaration."""
    return {
        name_of(column.name): Setting(
            name=name_of(column.name),
            attribute=column.name,
            default=column.default,
            **column.metadata[_ROW],
        )
        for column in fields(table)
        if _ROW in column.metadata
    }


def name_of(attribute: str) -> str:
    return attribute.replace("_", ".")


def attribute_of(name: str) -> str:
    return name.replace(".", "_")


def refuse(name: str, raw: Raw, allowed: str, reason: object = "") -> NoReturn:
    """Name the key, the value and what is allowed; ``reason`` only where it is a sentence of ours."""
    if isinstance(reason, ExplainedError):
        raise InvalidConfig(f"{name}={shown(raw)} is refused: {reason}.") from None
    raise InvalidConfig(f"{name}={shown(raw)} is refused: it must be {allowed}.") from None


def shown(raw: Raw) -> str:
    """A value for an error message: in Kafka's spelling, and never longer than a line."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    text = raw if isinstance(raw, str) else str(raw)
    if not text.isprintable() or not text:
        text = repr(text)
    return text if len(text) <= 80 else text[:77] + "..."


def refuse_unknown(name: str, scope: str, known: Iterable[str], elsewhere: Mapping[str, str]) -> NoReturn:
    """Refuse an unknown name: a mistyped setting that is silently ignored shows only in production."""
    if name in elsewhere:
        raise InvalidConfig(f"{shown(name)} is not a {scope} setting: {elsewhere[name]}.")
    near = difflib.get_close_matches(name[:100], list(known), n=1, cutoff=0.75)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise InvalidConfig(f"Unknown {scope} setting {shown(name)}.{hint}")
