"""Committed offsets of one group for one partition: its coordinator returns what was committed last."""

from typing import NamedTuple

from tidelog.sim.checkers.violation import Violation

NOTHING = -1


class Possible(NamedTuple):
    offsets: frozenset[int]
    number: int  # of the last commit requested before


class CommittedOffsets:
    def __init__(self, name: str) -> None:
        self._name = name
        self._told = NOTHING  # the last one that was acknowledged
        self._told_number = 0
        self._lowest = NOTHING  # No commit of an earlier offset is accepted any more,
        self._since = 0  # of those requested after this one.
        # By number, since then: any of these may have been committed as well.
        self._asked: dict[int, int] = {}
        self._numbers = 0
        self._ever = {NOTHING}
        self._all: dict[int, int] = {}  # by number, whatever was asked for

    def asked(self, offset: int) -> int:
        """The number of this commit: members of a group commit one after another."""
        self._ever.add(offset)
        self._numbers += 1
        self._asked[self._numbers] = self._all[self._numbers] = offset
        return self._numbers

    def told(self, offset: int, number: int) -> None:
        """A response may arrive late: later requests were committed afterwards, or not at all."""
        if number > self._told_number:
            if number > self._since:
                self._not_back(offset)
            self._told, self._told_number = offset, number
            self._asked = {asked: value for asked, value in self._asked.items() if asked > number}

    def _not_back(self, offset: int) -> None:
        """A reader that continues commits later offsets; one that was replaced must not commit."""
        if offset < self._lowest:
            raise Violation(f"{self._name}: committed offset went back, from {self._lowest} to {offset}")
        self._lowest = offset

    def reset(self, offset: int) -> None:
        """A reader continues from here: it found itself there, or records were given up. Earlier requests may
        be further on.
        """
        self._lowest = min(self._lowest, offset)
        self._since = self._numbers

    def looking(self) -> Possible:
        """The group's offset is requested: the values that are possible now. The response may be that old."""
        return Possible(frozenset({self._told, *self._asked.values()}), self._numbers)

    def found(self, offset: int, *, given_up: bool, since: Possible | None = None) -> None:
        """The response with the group's offset. ``given_up``: the coordinator's log may have lost something.
        ``since``: what was possible at the request; later commits are possible, too.
        """
        allowed = self._ever if given_up else {self._told, *self._asked.values()}
        if since is not None:
            later = {value for number, value in self._all.items() if number > since.number}
            allowed = allowed | since.offsets | later
        if offset not in allowed:
            how = "went back" if offset < self._told else "invented"
            raise Violation(
                f"{self._name}: committed offset {how}, {offset} was found, {self._told} acknowledged, "
                f"{list(self._asked.values())} asked for since"
            )
        self.reset(offset)
