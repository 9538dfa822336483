"""Records that an operator deleted: once that was acknowledged, they never return.

A log start survives a killed process at once, and a power failure with the log's next sync: deletions from
before a replica's loss are not checked.
"""

from tidelog.sim.checkers.promises import Place
from tidelog.sim.checkers.promises.place import Key
from tidelog.sim.checkers.violation import Violation


class Deletions:
    def __init__(self) -> None:
        self._asked: dict[Key, int] = {}
        self._told: dict[Key, tuple[int, int]] = {}  # up to where, and the losses before

    def asked(self, key: Key, offset: int) -> None:
        self._asked[key] = max(offset, self._asked.get(key, 0))

    def told(self, key: Key, offset: int, losses: int) -> None:
        """``losses``: how often the partition's replicas had lost anything at the time of the request."""
        known = self._told.get(key, (0, losses))
        self._told[key] = (max(offset, known[0]), losses) if known[1] == losses else (offset, losses)

    def were_asked(self, key: Key) -> bool:
        return key in self._asked

    def check(self, place: Place, start_offset: int, losses: int) -> None:
        """``start_offset``: of the leader's log at the end."""
        offset, before = self._told.get(place.key, (0, losses))
        if before == losses and start_offset < offset:
            raise Violation(
                f"{place.name}: records before {offset} were deleted, and the log begins at {start_offset}"
            )
