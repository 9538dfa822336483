"""What the pure state machines have in common: an event goes in, effects come out, and nothing else changes
them. So a machine is its state, which can be shown as plain data, compared, hashed and copied.

:data:`~Machine.SURROUNDINGS` names the fields that are not state: what the machine only queries (its log, the
metadata store), and settings.
"""

from collections import deque
from collections.abc import Hashable
from enum import Enum
from typing import Any, ClassVar, Self

Data = tuple[tuple[str, Hashable], ...]
"""Names and values of fields, in declaration order."""


class Machine:
    __slots__ = ()

    SURROUNDINGS: ClassVar[frozenset[str]] = frozenset()

    def as_data(self) -> Data:
        surroundings = self.SURROUNDINGS
        return tuple([(name, plain(value)) for name, value in _fields(self) if name not in surroundings])

    def copied(self, **surroundings: object) -> Self:
        """A copy in the same state, with these surroundings or, if none are given, the same ones."""
        made = object.__new__(type(self))
        for name, value in _fields(self):
            if name in self.SURROUNDINGS:
                object.__setattr__(made, name, surroundings.get(name, value))
            else:
                object.__setattr__(made, name, _copied(value))
        return made


class _Kind(Enum):
    """How values of a type are told and copied."""

    VALUE = "value"  # Compared by what it says, and never changed.
    TUPLE = "tuple"
    SEQUENCE = "sequence"
    SET = "set"
    MAPPING = "mapping"
    OBJECT = "object"  # With fields of its own.


# Looked up for every field: attributes of an enum are slow.
_VALUE, _TUPLE, _SEQUENCE, _SET, _MAPPING, _OBJECT = _Kind


class _Kinds(dict[type, _Kind]):
    def __missing__(self, of: Any) -> _Kind:
        self[of] = kind = _kind_of(of)
        return kind


def _kind_of(of: Any) -> _Kind:
    for kind, types in (
        (_TUPLE, (tuple,)),
        (_SEQUENCE, (list, deque)),
        (_SET, (set, frozenset)),
        (_MAPPING, (dict,)),
        (_VALUE, (Enum, type, type(None))),
    ):
        if issubclass(of, types):
            return kind
    return _OBJECT if of.__eq__ is object.__eq__ else _VALUE


class _Slots(dict[type, tuple[str, ...]]):
    def __missing__(self, of: type) -> tuple[str, ...]:
        names = tuple(name for base in of.__mro__ for name in base.__dict__.get("__slots__", ()))
        self[of] = names
        return names


_kinds = _Kinds()
_slots = _Slots()


def plain(value: Any) -> Hashable:
    """The same as nested tuples of values. What is in the order in which it came stays so."""
    kind = _kinds[type(value)]
    if kind is _VALUE:
        return value  # type: ignore[no-any-return]
    if kind is _TUPLE or kind is _SEQUENCE:
        return tuple([plain(each) for each in value])
    if kind is _SET:
        return frozenset(value)
    if kind is _MAPPING:
        return tuple([(plain(key), plain(each)) for key, each in value.items()])
    return type(value).__name__, *[(name, plain(each)) for name, each in _fields(value)]


def _copied(value: Any) -> Any:
    """What can change is copied, what cannot is shared."""
    of = type(value)
    kind = _kinds[of]
    if kind is _VALUE or kind is _TUPLE:
        return value
    if kind is _SEQUENCE:
        return of([_copied(each) for each in value])
    if kind is _SET:
        return of(value)
    if kind is _MAPPING:
        return {key: _copied(each) for key, each in value.items()}
    fields = _fields(value)
    if not fields:
        return value  # A policy: it has no state, and is known by which one it is.
    made = object.__new__(of)
    for name, each in fields:
        object.__setattr__(made, name, _copied(each))
    return made


def _fields(value: Any) -> list[tuple[str, Any]]:
    slots = _slots[type(value)]
    if slots:
        return [(name, getattr(value, name)) for name in slots if hasattr(value, name)]
    return list(getattr(value, "__dict__", {}).items())
