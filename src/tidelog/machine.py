"""What the pure state machines have in common: an event goes in, effects come out, and nothing else changes
them. So a machine is its state, which can be shown as plain data, compared, hashed and copied.

:data:`~Machine.SURROUNDINGS` names the fields that are not state: what the machine only queries (its log, the
metadata store), and settings.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Any, ClassVar, Self

Data = tuple[tuple[str, Hashable], ...]
"""Names and values of fields, in declaration order."""


class Machine:
    __slots__ = ()

    SURROUNDINGS: ClassVar[frozenset[str]] = frozenset()

    def as_data(self) -> Data:
        return tuple((name, plain(value)) for name, value in _fields(self) if name not in self.SURROUNDINGS)

    def copied(self, **surroundings: object) -> Self:
        """A copy in the same state, with these surroundings or, if none are given, the same ones."""
        made = object.__new__(type(self))
        for name, value in _fields(self):
            if name in self.SURROUNDINGS:
                object.__setattr__(made, name, surroundings.get(name, value))
            else:
                object.__setattr__(made, name, _copied(value))
        return made


def plain(value: Any) -> Hashable:
    """The same as nested tuples of values. Insertion order is kept."""
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
    """Copies mutable values and shares immutable ones."""
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
    """Whether it is compared by value and not by identity."""
    of: Any = type(value)
    return of.__eq__ is not object.__eq__ or isinstance(value, type)


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    for base in type(value).__mro__:
        for name in base.__dict__.get("__slots__", ()):
            if hasattr(value, name):
                yield name, getattr(value, name)
    yield from getattr(value, "__dict__", {}).items()
