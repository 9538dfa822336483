"""Committed offsets of one group for one partition: its coordinator says what was committed last."""

from tidelog.sim.checkers.violation import Violation

NOTHING = -1


class CommittedOffsets:
    def __init__(self, name: str) -> None:
        self._name = name
        self._told = NOTHING  # the last one that was acknowledged
        self._asked: list[int] = []  # since then: any of these may have been committed as well
        self._ever = {NOTHING}

    def asked(self, offset: int) -> None:
        self._ever.add(offset)
        self._asked.append(offset)

    def told(self, offset: int) -> None:
        self._told = offset
        self._asked.clear()

    def found(self, offset: int, *, given_up: bool) -> None:
        """The group was asked where it is. ``given_up``: the coordinator's log may have lost something."""
        allowed = self._ever if given_up else {self._told, *self._asked}
        if offset not in allowed:
            how = "went back" if offset < self._told else "invented"
            raise Violation(
                f"{self._name}: committed offset {how}, {offset} was found, {self._told} acknowledged, "
                f"{self._asked} asked for since"
            )
