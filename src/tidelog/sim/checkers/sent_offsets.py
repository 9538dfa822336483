"""Offsets that the producers with one transactional id send in their transactions: each counts if and only if
its transaction is committed. A successor reads the valid one before it begins: pending transactions of its
predecessors are committed by then, or never.
"""

from tidelog.sim.checkers.violation import Violation

NOTHING = -1


class SentOffsets:
    def __init__(self, name: str) -> None:
        self._name = name
        self._newest = NOTHING  # Each transaction has an offset of its own.
        self._last = NOTHING  # of the last transaction that is known to be committed
        self._maybe: list[int] = []  # of later ones with unknown outcome
        self._decided = NOTHING  # The outcome of all up to this one is known.

    def next(self) -> int:
        self._newest += 1
        return self._newest

    def committing(self, offset: int) -> None:
        self._maybe.append(offset)

    def committed(self, offset: int) -> None:
        """Its producer was told so."""
        if self._last < offset <= self._decided:
            raise Violation(f"{self._name}: offset {offset} was committed, and {self._last} counts")
        if offset > self._last:
            self._last = offset
            self._maybe = [each for each in self._maybe if each > offset]

    def found(self, offset: int) -> None:
        """The group's coordinator returns it to a producer that has taken over and not begun."""
        if offset != self._last and offset not in self._maybe:
            raise Violation(
                f"{self._name}: offset {offset} counts; {self._last} was the last to be committed, and "
                f"perhaps {self._maybe}"
            )
        self._last, self._maybe, self._decided = offset, [], self._newest
