"""Committed offsets of one group for one partition: its coordinator says what was committed last."""

from typing import NamedTuple

from tidelog.sim.checkers.violation import Violation

NOTHING = -1


class Possible(NamedTuple):
    offsets: frozenset[int]
    number: int  # of the last commit that had been asked for


class CommittedOffsets:
    def __init__(self, name: str) -> None:
        self._name = name
        self._told = NOTHING  # the last one that was acknowledged
        self._told_number = 0
        self._lowest = NOTHING  # No commit of something earlier is taken any more,
        self._since = 0  # of those that were asked for after this one.
        # By number, since then: any of these may have been committed as well.
        self._asked: dict[int, int] = {}
        self._numbers = 0
        self._ever = {NOTHING}
        self._all: dict[int, int] = {}  # by number, whatever was asked for

    def asked(self, offset: int) -> int:
        """The number of this commit: members of a group ask one after the other."""
        self._ever.add(offset)
        self._numbers += 1
        self._asked[self._numbers] = self._all[self._numbers] = offset
        return self._numbers

    def told(self, offset: int, number: int) -> None:
        """An answer may come late: whoever asked afterwards was committed afterwards, or not at all."""
        if number > self._told_number:
            if number > self._since:
                self._not_back(offset)
            self._told, self._told_number = offset, number
            self._asked = {asked: value for asked, value in self._asked.items() if asked > number}

    def _not_back(self, offset: int) -> None:
        """Whoever reads on commits what lies further on; somebody whose time is over must not commit."""
        if offset < self._lowest:
            raise Violation(f"{self._name}: committed offset went back, from {self._lowest} to {offset}")
        self._lowest = offset

    def reset(self, offset: int) -> None:
        """A reader goes on from here: it found itself there, or records were given up. What was asked for
        before may lie further on.
        """
        self._lowest = min(self._lowest, offset)
        self._since = self._numbers

    def looking(self) -> Possible:
        """The group is asked where it is: what may be true at this moment. The answer may be that old."""
        return Possible(frozenset({self._told, *self._asked.values()}), self._numbers)

    def found(self, offset: int, *, given_up: bool, since: Possible | None = None) -> None:
        """The group was asked where it is. ``given_up``: the coordinator's log may have lost something.
        ``since``: what was possible when it was asked; whatever was committed after that may be true, too.
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
