"""What a browser asks for, checked: kinds, names, numbers. Pure.

Whether the cluster takes it is the cluster's matter; here is only what could not be sent.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeGuard

NAME_CHARS_MAX = 249  # of a topic
SETTINGS_MAX = 100
REPLICAS_MAX = 32
PARTITIONS_MAX = 100_000
INT32_MAX = (1 << 31) - 1
DEFAULT = -1  # partitions or replicas: as the cluster has it
MESSAGE_CHARS_MAX = 1_000_000

EARLIEST, LATEST = "earliest", "latest"


class Unclear(Exception):
    """It cannot be asked for so; one sentence."""


class CreateTopic(NamedTuple):
    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]


class AlterTopic(NamedTuple):
    name: str
    settings: Mapping[str, str | None]  # None: back to its default
    partitions: int  # DEFAULT: as many as there are


class DeleteTopic(NamedTuple):
    name: str


class Move(NamedTuple):
    """Also: another preferred leader, or another primary."""

    name: str
    partition: int
    replicas: tuple[int, ...]


class Promote(NamedTuple):
    name: str
    partition: int
    to: int


class Drain(NamedTuple):
    broker: int
    undo: bool


class ResetOffsets(NamedTuple):
    group: str
    topic: str  # empty: all that it has committed
    to: str  # EARLIEST, LATEST, an offset, or @ and milliseconds since 1970


class Produce(NamedTuple):
    name: str
    partition: int  # DEFAULT: by its key
    key: str | None
    value: str | None
    headers: tuple[tuple[str, str], ...]


Change = CreateTopic | AlterTopic | DeleteTopic | Move | Promote | Drain | ResetOffsets | Produce


def change_of(said: Mapping[str, Any]) -> Change:
    kind = said.get("kind")
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise Unclear("There is no such change.")
    return read(said)


def _create(said: Mapping[str, Any]) -> CreateTopic:
    settings = {name: value for name, value in _settings(said).items() if value is not None}
    partitions = _number(said, "partitions", 1, PARTITIONS_MAX, DEFAULT)
    return CreateTopic(
        _topic(said), partitions, _number(said, "replicas", 1, REPLICAS_MAX, DEFAULT), settings
    )


def _alter(said: Mapping[str, Any]) -> AlterTopic:
    found = AlterTopic(_topic(said), _settings(said), _number(said, "partitions", 1, PARTITIONS_MAX, DEFAULT))
    if not found.settings and found.partitions == DEFAULT:
        raise Unclear("Nothing would change.")
    return found


def _delete(said: Mapping[str, Any]) -> DeleteTopic:
    if said.get("typed") != said.get("name"):
        raise Unclear("Type the name of the topic to delete it.")
    return DeleteTopic(_topic(said))


def _move(said: Mapping[str, Any]) -> Move:
    replicas = said.get("replicas")
    if (
        not isinstance(replicas, list)
        or not 1 <= len(replicas) <= REPLICAS_MAX
        or not all(_is_number(each) and each >= 0 for each in replicas)
        or len(set(replicas)) < len(replicas)
    ):
        raise Unclear("Replicas are given as numbers of brokers, each once.")
    return Move(_topic(said), _number(said, "partition", 0, INT32_MAX), tuple(replicas))


def _promote(said: Mapping[str, Any]) -> Promote:
    return Promote(_topic(said), _number(said, "partition", 0, INT32_MAX), _number(said, "to", 0, INT32_MAX))


def _drain(said: Mapping[str, Any]) -> Drain:
    return Drain(_number(said, "broker", 0, INT32_MAX), said.get("undo") is True)


def _reset(said: Mapping[str, Any]) -> ResetOffsets:
    group, topic, to = _text(said, "group"), _text(said, "topic"), _text(said, "to")
    if to not in (EARLIEST, LATEST) and not (to.removeprefix("@").isdecimal() and len(to) < 20):
        raise Unclear("Offsets are reset to earliest, latest, an offset, or @ and a time in milliseconds.")
    return ResetOffsets(group, topic, to)


def _produce(said: Mapping[str, Any]) -> Produce:
    headers = said.get("headers", [])
    if not isinstance(headers, list) or not all(_is_pair(each) for each in headers):
        raise Unclear("Headers are pairs of a name and a value.")
    key, value = (None if said.get(part) is None else _text(said, part) for part in ("key", "value"))
    partition = _number(said, "partition", 0, INT32_MAX, DEFAULT)
    return Produce(_topic(said), partition, key, value, tuple((name, text) for name, text in headers))


# --- parts --------------------------------------------------------------------------------------------------


def _topic(said: Mapping[str, Any]) -> str:
    name = _text(said, "name")
    if not name or len(name) > NAME_CHARS_MAX:
        raise Unclear(f"A topic's name has 1 to {NAME_CHARS_MAX} characters.")
    return name


def _text(said: Mapping[str, Any], part: str) -> str:
    found = said.get(part, "")
    if not isinstance(found, str) or len(found) > MESSAGE_CHARS_MAX:
        raise Unclear(f"The {part} is no text, or too long.")
    try:
        found.encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        raise Unclear(f"The {part} is no text.") from None
    return found


def _number(said: Mapping[str, Any], part: str, least: int, most: int, otherwise: int | None = None) -> int:
    found = said.get(part)
    if found is None and otherwise is not None:
        return otherwise
    if not _is_number(found) or not least <= found <= most:
        raise Unclear(f"The {part} is a number from {least} to {most}.")
    return found


def _settings(said: Mapping[str, Any]) -> dict[str, str | None]:
    found = said.get("settings", {})
    if not isinstance(found, dict) or len(found) > SETTINGS_MAX:
        raise Unclear("Settings are names with values.")
    if not all(name and isinstance(value, str | None) for name, value in found.items()):
        raise Unclear("Settings are names with values.")
    return {name: _text(found, name) if value is not None else None for name, value in found.items()}


def _is_number(found: object) -> TypeGuard[int]:
    return isinstance(found, int) and not isinstance(found, bool)


def _is_pair(found: Any) -> bool:
    return isinstance(found, list) and len(found) == 2 and all(isinstance(each, str) for each in found)


_KINDS: dict[str, Callable[[Mapping[str, Any]], Change]] = {
    "create-topic": _create,
    "alter-topic": _alter,
    "delete-topic": _delete,
    "move": _move,
    "promote": _promote,
    "drain": _drain,
    "reset-offsets": _reset,
    "produce": _produce,
}
