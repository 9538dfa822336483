"""The lines between the brokers of a cluster and its clients: which faults are on them.

Owns the faults of each direction; several may be there at a time. How a line gets its shape is left to the
relay (:mod:`tidelog.lab.network.relayed`) or to namespaces (:mod:`tidelog.lab.network.namespaced`).
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.lab.network.shape import Shape, combined

Party = int | str


class Direction(NamedTuple):
    source: Party
    target: Party


class LineFault(NamedTuple):
    """A shape on some directions. Two of the same shape are two."""

    number: int
    shape: Shape
    directions: tuple[Direction, ...]


class Wiring:
    """The base of both kinds of networks. ``bootstrap`` is for clients whose lines have the faults."""

    kind: str
    bootstrap: str

    def __init__(self) -> None:
        self._faults: dict[int, LineFault] = {}
        self._count = 0

    def add(self, shape: Shape, directions: Iterable[Direction]) -> LineFault:
        self._count += 1
        fault = LineFault(self._count, shape, tuple(dict.fromkeys(directions)))
        self._faults[fault.number] = fault
        self._update(fault.directions)
        return fault

    def remove(self, fault: LineFault) -> None:
        if self._faults.pop(fault.number, None) is not None:
            self._update(fault.directions)

    def heal(self) -> None:
        """Remove all faults."""
        for fault in list(self._faults.values()):
            self.remove(fault)

    def close(self) -> None:
        raise NotImplementedError

    def _apply(self, direction: Direction, shape: Shape) -> None:
        raise NotImplementedError

    def _update(self, directions: Iterable[Direction]) -> None:
        for direction in directions:
            shapes = [fault.shape for fault in self._faults.values() if direction in fault.directions]
            self._apply(direction, combined(shapes))


def directions_between(first: Iterable[Party], second: Iterable[Party]) -> list[Direction]:
    """Of all bytes from the first parties to the second."""
    targets = list(second)
    return [Direction(one, other) for one in first for other in targets if one != other]
