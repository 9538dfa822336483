"""Copies and fingerprints of a node: an object graph of slots, dicts, deques, bound methods and closures.

A step of the search changes one node or two, and the nodes before the step are still needed for the other
steps. So a node is copied as a whole: everything mutable that it can reach. Immutable objects (numbers,
images, settings, policies) are shared, and keep their identity, which the code under test compares.

A fingerprint is the same graph as one flat sequence of values. Objects are numbered in the order in which
they are found, so two graphs of the same shape have the same fingerprint. Times are relative to the clock,
and anything longer ago than every timeout is just "long ago": otherwise no state would ever be found twice.

This is where a search spends its time, so both are written for speed.
"""

from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum
from functools import partial
from itertools import count
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

import msgspec

from tidelog.config import BrokerConfig, TopicConfig
from tidelog.errors import TidelogError
from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.modes import MODES
from tidelog.replication.view import Wait, Yes

LONG_AGO_MS = 5000
"""Longer than every timeout, shorter than a step of the clock."""

# Compared by their values.
_VALUES: set[type] = {int, str, bytes, bool, float, type(None), UUID, frozenset}
# Shared by all copies; these and all enums, structs, errors and classes.
_ATOMS: set[type] = {
    *_VALUES, BrokerConfig, TopicConfig, Wait, Yes, type,
    *(type(mode.policy) for mode in MODES.values()),
}  # fmt: skip
_NEVER_CHANGE = (Enum, msgspec.Struct, TidelogError, type)

# Mappings to times whose names do not say so.
_TIMES_BY_KEY = frozenset({"_heard", "_untold", "_ahead"})
# Not part of a node's state: the ages tell the clock, and counters of changes are history. References within
# a node never change.
_UNTOLD = frozenset(
    {
        "clock_ms", "version", "me", "_me", "services", "_services", "_peers", "_chance", "_storage",
        "listener", "_host", "host", "mail", "ports", "_ports", "_cluster", "timing", "throttle", "syncer",
        "directory", "_directory", "_path", "_write", "_size",
        # Made from the slots of a driver.
        "attached", "_on_arriving", "_on_arrived", "_on_appended", "_on_taken",
    }
)  # fmt: skip

_slots: dict[type, tuple[str, ...]] = {}
_MISSING = object()


def _slots_of(of: type) -> tuple[str, ...]:
    known = _slots.get(of)
    if known is None:
        names = [name for base in of.__mro__ for name in getattr(base, "__slots__", ())]
        known = _slots[of] = tuple(name for name in names if name not in ("__dict__", "__weakref__"))
    return known


def _is_fieldless(of: type) -> bool:
    """Whether its objects have nothing that could change: null objects."""
    has_dict = any("__dict__" in vars(base) for base in of.__mro__)
    return not has_dict and not _slots_of(of) and issubclass(of, Attachment)


# --- copies -------------------------------------------------------------------------------------------------


class Copier:
    """One copy of one graph."""

    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        of = type(value)
        if of in _ATOMS:
            return value
        known = self._copies.get(id(value))
        if known is not None:
            return known
        way = _ways.get(of)
        if way is None:
            way = _ways[of] = _way_for(of)
        return way(self, value)

    def _atom(self, value: Any) -> Any:
        return value

    def _tuple(self, value: Any) -> Any:
        parts = [each if type(each) in _ATOMS else self.copy(each) for each in value]
        for new, old in zip(parts, value, strict=True):
            if new is not old:
                break
        else:
            return value
        made = getattr(type(value), "_make", tuple)(parts)
        self._copies[id(value)] = made
        return made

    def _list(self, value: Any) -> Any:
        made: list[Any] = []
        self._copies[id(value)] = made
        if value:
            made += [each if type(each) in _ATOMS else self.copy(each) for each in value]
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
            if type(key) not in _ATOMS:
                key = self.copy(key)
            made[key] = each if type(each) in _ATOMS else self.copy(each)
        return made

    def _method(self, value: Any) -> Any:
        made = MethodType(value.__func__, self.copy(value.__self__))
        self._copies[id(value)] = made
        return made

    def _builtin(self, value: Any) -> Any:
        """A method of a container: of its copy."""
        owner = value.__self__
        return value if isinstance(owner, ModuleType) else getattr(self.copy(owner), value.__name__)

    def _function(self, value: Any) -> Any:
        if value.__closure__ is None and not value.__defaults__:
            return value
        cells = tuple([self.copy(cell) for cell in value.__closure__ or ()])
        defaults = self.copy(value.__defaults__)
        made = FunctionType(value.__code__, value.__globals__, value.__name__, defaults, cells)
        self._copies[id(value)] = made
        return made

    def _partial(self, value: Any) -> Any:
        made = partial(self.copy(value.func), *self.copy(value.args), **self.copy(value.keywords))
        self._copies[id(value)] = made
        return made

    def _cell(self, value: Any) -> Any:
        made = CellType()
        self._copies[id(value)] = made
        made.cell_contents = self.copy(value.cell_contents)
        return made

    def _count(self, value: Any) -> Any:
        return count()  # Orders simultaneous timers; carries no information.

    def _object(self, value: Any) -> Any:
        of = type(value)
        made = object.__new__(of)
        self._copies[id(value)] = made
        for name in _slots_of(of):
            each = getattr(value, name, _MISSING)
            if each is not _MISSING:
                object.__setattr__(made, name, each if type(each) in _ATOMS else self.copy(each))
        fields = getattr(value, "__dict__", None)
        if fields is not None:
            mine = made.__dict__
            for name, each in fields.items():
                mine[name] = each if type(each) in _ATOMS else self.copy(each)
        return made


_Way = Callable[[Copier, Any], Any]
_ways: dict[type, _Way] = {
    list: Copier._list,
    deque: Copier._deque,
    set: Copier._set,
    dict: Copier._dict,
    MethodType: Copier._method,
    BuiltinFunctionType: Copier._builtin,
    FunctionType: Copier._function,
    CellType: Copier._cell,
    partial: Copier._partial,
    count: Copier._count,
}


def _way_for(of: type) -> _Way:
    """The copy function for a new type."""
    if issubclass(of, _NEVER_CHANGE):
        _ATOMS.add(of)
        if issubclass(of, Enum):
            _VALUES.add(of)
        return Copier._atom
    if issubclass(of, tuple):
        return Copier._tuple
    if _is_fieldless(of):
        _ATOMS.add(of)
        return Copier._atom
    return Copier._object


# --- fingerprints -------------------------------------------------------------------------------------------


class Fingerprints:
    """Of graphs. Caches those of images, which occur again and again."""

    def __init__(self) -> None:
        self._structs: dict[int, tuple[Any, bytes]] = {}

    def of(self, value: Any, now_ms: int) -> Hashable:
        walk = _Walk(self, now_ms)
        walk.walk(value)
        return tuple(walk.row)

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
        self.row: list[Hashable] = []

    def walk(self, value: Any) -> None:
        of = type(value)
        if of in _VALUES:
            self.row.append(value)
            return
        met = self._met.get(id(value))
        if met is not None:
            self.row.append(met)
            return
        if isinstance(value, tuple):
            self.row.append(len(value))
            for each in value:
                self.walk(each)
            return
        self._met[id(value)] = len(self._met)
        inside = _insides.get(of)
        if inside is None:
            inside = _insides[of] = _inside_for(of)
        inside(self, value)

    def _struct(self, value: Any) -> None:
        self.row.append(self._prints.of_struct(value))

    def _same(self, value: Any) -> None:
        self.row.append(id(value))

    def _list(self, value: Any) -> None:
        self.row.append(len(value))
        for each in value:
            self.walk(each)

    def _set(self, value: Any) -> None:
        self._list(sorted(value, key=repr) if len(value) > 1 else value)

    def _dict(self, value: Any) -> None:
        self.row.append(len(value))
        for key, each in value.items():
            self.walk(key)
            self.walk(each)

    def _method(self, value: Any) -> None:
        self.row.append(value.__func__)
        self.walk(value.__self__)

    def _builtin(self, value: Any) -> None:
        self.row.append(value.__name__)

    def _function(self, value: Any) -> None:
        self.row.append(value.__code__)
        for cell in value.__closure__ or ():
            self.walk(cell.cell_contents)
        self.walk(value.__defaults__)

    def _partial(self, value: Any) -> None:
        self.walk(value.func)
        self.walk(value.args)
        self.walk(value.keywords)

    def _nothing(self, value: Any) -> None: ...

    def _kind(self, value: Any) -> None:
        self.row.append(type(value).__name__)

    def _own(self, value: Any) -> None:
        self.row.append(value.fingerprint())

    def _object(self, value: Any) -> None:
        of = type(value)
        self.row.append(of.__name__)
        for name in _slots_of(of):
            if name not in _UNTOLD:
                self._field(name, getattr(value, name, None))
        for name, each in getattr(value, "__dict__", {}).items():
            if name not in _UNTOLD:
                self._field(name, each)

    def _field(self, name: str, value: Any) -> None:
        of = type(value)
        if of is int:
            self.row.append(self._age(value) if name.endswith("_ms") else value)
        elif of in _VALUES:
            self.row.append(value)
        elif of is MethodType or of is FunctionType or of is partial:
            return  # Subscriptions never change. Pending callbacks are in lists.
        elif name in _TIMES_BY_KEY and type(value) is dict:
            for key, each in value.items():
                self.walk(key)
                self.walk(self._age(each) if type(each) is int else each)
        else:
            self.walk(value)

    def _age(self, time_ms: int) -> int:
        return max(time_ms - self._now_ms, -LONG_AGO_MS)


_Inside = Callable[[_Walk, Any], None]
_insides: dict[type, _Inside] = {
    list: _Walk._list,
    deque: _Walk._list,
    set: _Walk._set,
    dict: _Walk._dict,
    MethodType: _Walk._method,
    BuiltinFunctionType: _Walk._builtin,
    FunctionType: _Walk._function,
    partial: _Walk._partial,
    count: _Walk._nothing,
}


def _inside_for(of: type) -> _Inside:
    if issubclass(of, msgspec.Struct):
        return _Walk._struct
    if _is_fieldless(of):
        return _Walk._kind
    if of in _ATOMS or issubclass(of, _NEVER_CHANGE):
        return _Walk._same
    return _Walk._own if hasattr(of, "fingerprint") else _Walk._object
