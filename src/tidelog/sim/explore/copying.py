"""Copies and fingerprints of a node: an object graph of slots, dicts, deques, bound methods and closures.

A step of the search changes one node, and the node before the step is still needed for the other steps. So
the node is copied as a whole: everything it can reach that may change. What cannot change (numbers, images,
settings, policies) is shared, and keeps its identity, which the code under test compares.

A fingerprint is the same graph as one tuple. Objects are numbered in the order in which they are met, so two
graphs of the same shape have the same fingerprint. Times are told relative to the clock, and whatever is
longer ago than any timeout is just "long ago": otherwise no state would ever be met twice.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from itertools import count
from types import BuiltinFunctionType, CellType, FunctionType, MethodType
from typing import Any
from uuid import UUID

import msgspec

from tidelog.config import BrokerConfig, TopicConfig
from tidelog.errors import TidelogError
from tidelog.replication.policies import BY_NAME
from tidelog.replication.view import Wait, Yes

LONG_AGO_MS = 5000
"""Longer than anything waits for, shorter than a step of the clock."""

_ATOMS: frozenset[type] = frozenset(
    {
        int, str, bytes, bool, float, type(None), UUID, frozenset, BuiltinFunctionType, BrokerConfig,
        TopicConfig, Wait, Yes, type, *(type(policy) for policy in BY_NAME.values()),
    }
)  # fmt: skip

# Mappings to times whose names do not say so.
_TIMES_BY_KEY = frozenset({"_heard", "_untold", "_ahead"})
# Say nothing about a node: the clock is told by the ages, and how often something changed is history.
_UNTOLD = frozenset({"clock_ms", "version"})
_kinds: dict[type, str] = {}
_slots: dict[type, tuple[str, ...]] = {}


def _kind(of: type) -> str:
    """How values of this type are copied."""
    known = _kinds.get(of)
    if known is None:
        known = _kinds[of] = _classify(of)
    return known


def _classify(of: type) -> str:
    if of in _ATOMS or issubclass(of, Enum | msgspec.Struct | TidelogError | type):
        return "atom"
    for base, kind in (
        (tuple, "tuple"), (dict, "dict"), (list, "list"), (set, "set"), (deque, "deque"),
        (FunctionType, "function"), (MethodType, "method"), (CellType, "cell"), (count, "count"),
    ):  # fmt: skip
        if issubclass(of, base):
            return kind
    return "object"


def _slots_of(of: type) -> tuple[str, ...]:
    known = _slots.get(of)
    if known is None:
        names = [name for base in of.__mro__ for name in getattr(base, "__slots__", ())]
        known = _slots[of] = tuple(name for name in names if name not in ("__dict__", "__weakref__"))
    return known


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for name in _slots_of(type(value)):
        if hasattr(value, name):
            yield name, getattr(value, name)
    if hasattr(value, "__dict__"):
        yield from value.__dict__.items()


# --- copies -------------------------------------------------------------------------------------------------


class Copier:
    """One copy of one graph."""

    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        kind = _kind(type(value))
        if kind == "atom":
            return value
        known = self._copies.get(id(value))
        return known if known is not None else _COPIES[kind](self, value)

    def _tuple(self, value: Any) -> Any:
        parts = [self.copy(each) for each in value]
        if all(new is old for new, old in zip(parts, value, strict=True)):
            return value
        made = getattr(type(value), "_make", tuple)(parts)
        self._copies[id(value)] = made
        return made

    def _list(self, value: Any) -> Any:
        made: list[Any] = []
        self._copies[id(value)] = made
        made += [self.copy(each) for each in value]
        return made

    def _deque(self, value: Any) -> Any:
        made: deque[Any] = deque()
        self._copies[id(value)] = made
        made += [self.copy(each) for each in value]
        return made

    def _set(self, value: Any) -> Any:
        made: set[Any] = set()
        self._copies[id(value)] = made
        made.update(self.copy(each) for each in value)
        return made

    def _dict(self, value: Any) -> Any:
        made: dict[Any, Any] = {}
        self._copies[id(value)] = made
        for key, each in value.items():
            made[self.copy(key)] = self.copy(each)
        return made

    def _method(self, value: Any) -> Any:
        made = MethodType(value.__func__, self.copy(value.__self__))
        self._copies[id(value)] = made
        return made

    def _function(self, value: Any) -> Any:
        if value.__closure__ is None and not value.__defaults__:
            return value
        cells = tuple(self.copy(cell) for cell in value.__closure__ or ())
        defaults = self.copy(value.__defaults__)
        made = FunctionType(value.__code__, value.__globals__, value.__name__, defaults, cells)
        made.__qualname__ = value.__qualname__
        self._copies[id(value)] = made
        return made

    def _cell(self, value: Any) -> Any:
        made = CellType()
        self._copies[id(value)] = made
        made.cell_contents = self.copy(value.cell_contents)
        return made

    def _count(self, value: Any) -> Any:
        return count()  # Orders what is due at the same time; nothing is told by it.

    def _object(self, value: Any) -> Any:
        made = object.__new__(type(value))
        self._copies[id(value)] = made
        for name, each in _fields(value):
            object.__setattr__(made, name, self.copy(each))
        return made


_COPIES: dict[str, Callable[[Copier, Any], Any]] = {
    "tuple": Copier._tuple,
    "list": Copier._list,
    "deque": Copier._deque,
    "set": Copier._set,
    "dict": Copier._dict,
    "method": Copier._method,
    "function": Copier._function,
    "cell": Copier._cell,
    "count": Copier._count,
    "object": Copier._object,
}


# --- fingerprints -------------------------------------------------------------------------------------------


class Fingerprints:
    """Of graphs. Remembers those of images, which are met again and again."""

    def __init__(self) -> None:
        self._structs: dict[int, tuple[Any, bytes]] = {}

    def of(self, value: Any, now_ms: int) -> Hashable:
        return _Walk(self, now_ms).walk(value)

    def of_struct(self, value: Any) -> bytes:
        known = self._structs.get(id(value))
        if known is None or known[0] is not value:
            known = self._structs[id(value)] = value, msgspec.json.encode(value)
        return known[1]


class _Walk:
    def __init__(self, prints: Fingerprints, now_ms: int) -> None:
        self._prints = prints
        self._now_ms = now_ms
        self._met: dict[int, int] = {}

    def walk(self, value: Any) -> Hashable:
        of = type(value)
        kind = _kind(of)
        if kind == "atom":
            return self._atom(of, value)
        met = self._met.get(id(value))
        if met is not None:
            return "met", met
        if kind == "tuple":
            return tuple(self.walk(each) for each in value)
        if kind == "count":
            return None
        self._met[id(value)] = len(self._met)
        return self._inside(kind, of, value)

    def _atom(self, of: type, value: Any) -> Hashable:
        if issubclass(of, msgspec.Struct):
            return self._prints.of_struct(value)
        if of is BrokerConfig or of is TopicConfig or issubclass(of, TidelogError):
            return id(value)
        return value  # type: ignore[no-any-return]

    def _inside(self, kind: str, of: type, value: Any) -> Hashable:
        if kind in ("list", "deque"):
            return tuple(self.walk(each) for each in value)
        if kind == "set":
            return frozenset(self.walk(each) for each in value)
        if kind == "dict":
            return tuple((self.walk(key), self.walk(each)) for key, each in value.items())
        if kind == "method":
            return value.__func__.__qualname__, self.walk(value.__self__)
        if kind == "function":
            cells = value.__closure__ or ()
            inside = tuple(self.walk(cell.cell_contents) for cell in cells)
            return value.__qualname__, value.__code__.co_firstlineno, inside, self.walk(value.__defaults__)
        own = getattr(value, "fingerprint", None)
        if own is not None:
            return own()  # type: ignore[no-any-return]
        return of.__name__, tuple(self._field(name, each) for name, each in _fields(value))

    def _field(self, name: str, value: Any) -> Hashable:
        if name in _UNTOLD:
            return None
        if type(value) is int and name.endswith("_ms"):
            return self._age(value)
        if name in _TIMES_BY_KEY and type(value) is dict:
            return tuple(
                (self.walk(key), self._age(each) if type(each) is int else self.walk(each))
                for key, each in value.items()
            )
        return self.walk(value)

    def _age(self, time_ms: int) -> int:
        return max(time_ms - self._now_ms, -LONG_AGO_MS)
