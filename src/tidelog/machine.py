"""What the pure state machines have in common: an event goes in, effects come out, and nothing else changes
them. So a machine is its state, and that can be told as plain data, compared, hashed and copied.

:data:`~Machine.SURROUNDINGS` names the fields that are no state of the machine: what it only asks (its log,
the metadata store), and settings that are handed in.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from enum import Enum
from typing import Any, ClassVar, Self

Data = tuple[tuple[str, Hashable], ...]
"""Names and values of fields, in the order in which they are declared."""


class Machine:
    __slots__ = ()

    SURROUNDINGS: ClassVar[frozenset[str]] = frozenset()

    def as_data(self) -> Data:
        return tuple((name, plain(value)) for name, value in _fields(self) if name not in self.SURROUNDINGS)

    def copied(self, **surroundings: object) -> Self:
        """Another one in the same state, in these surroundings; where none are given, in the same ones."""
        made = object.__new__(type(self))
        for name, value in _fields(self):
            if name in self.SURROUNDINGS:
                object.__setattr__(made, name, surroundings.get(name, value))
            else:
                object.__setattr__(made, name, _copied(value))
        return made


def plain(value: Any) -> Hashable:
    """The same as nested tuples of values. What is in the order in which it came stays so."""
    if isinstance(value, tuple | list | deque):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple((plain(key), plain(each)) for key, each in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(value)
    if _is_value(value):
        return value  # type: ignore[no-any-return]
    return type(value).__name__, *((name, plain(each)) for name, each in _fields(value))


def _copied(value: Any) -> Any:
    """What can change is copied, what cannot is shared."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, list | deque):
        return type(value)(map(_copied, value))
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, set):
        return set(value)
    fields = () if _is_value(value) else tuple(_fields(value))
    if not fields:
        return value
    made = object.__new__(type(value))
    for name, each in fields:
        object.__setattr__(made, name, _copied(each))
    return made


def _is_value(value: Any) -> bool:
    """Whether it is compared by what it says, and not by which object it is."""
    of: Any = type(value)
    return of.__eq__ is not object.__eq__ or isinstance(value, Enum | type | None)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for base in type(value).__mro__:
        for name in base.__dict__.get("__slots__", ()):
            if hasattr(value, name):
                yield name, getattr(value, name)
    yield from getattr(value, "__dict__", {}).items()
