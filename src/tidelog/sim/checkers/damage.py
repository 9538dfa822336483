"""Flipped bits in old segments, and whether the damage is still there.

A replica with damaged records may truncate everything from the first of them on, and fetches it again: until
then, it counts as one that lost them. Its disk shows whether it has.
"""

from typing import NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.protocol.batch import check
from tidelog.sim.checkers.promises import Place
from tidelog.sim.checkers.promises.place import Key
from tidelog.sim.disk import SimulatedDisk


class Damage(NamedTuple):
    node: int
    key: Key
    disk: SimulatedDisk
    path: str  # of the segment
    position: int  # of the damaged batch in it
    offset: int  # Everything before it is intact.
    planted: bytes = b""  # What replaced the batch; empty: no valid batch.

    def is_there(self) -> bool:
        """Whether the batch is still damaged; it may also have been truncated or fetched again."""
        if not self.disk.exists(self.path):
            return False
        data = self.disk.contents(self.path.rpartition("/")[0])[self.path]
        if self.position >= len(data):
            return False
        if self.planted:
            return data.startswith(self.planted, self.position)
        try:
            check(data, self.position)
        except CorruptBatch:
            return True
        return False

    def is_within_log(self) -> bool:
        """Whether the log still reaches back to it: retention and deletions drop nothing after it."""
        names = self.disk.contents(self.path.rpartition("/")[0])
        bases = (int(name.rpartition("/")[2].removesuffix(".log")) for name in names if name.endswith(".log"))
        return min(bases, default=self.offset + 1) <= self.offset


class DamageChecker:
    def __init__(self) -> None:
        self._known: list[Damage] = []
        self._dropped: list[Damage] = []

    def noted(self, damage: Damage) -> None:
        self._known.append(damage)

    def there(self) -> list[Damage]:
        """Damage that is not repaired yet."""
        known, self._known = self._known, []
        for damage in known:
            if damage.is_there():
                self._known.append(damage)
            elif damage.is_within_log():
                self._dropped.append(damage)
        return self._known

    def dropped(self) -> list[Damage]:
        """Damage that was dropped with everything after it, each reported once."""
        self.there()
        dropped, self._dropped = self._dropped, []
        return dropped

    def nodes(self, place: Place) -> set[int]:
        """The nodes with damaged replicas of the partition."""
        if not self._known:
            return set()
        return {damage.node for damage in self.there() if damage.key == place.key}

    def first(self, place: Place, node: int, end: int) -> int:
        """Up to where the log of a node is intact, at most ``end``."""
        found = [each.offset for each in self.there() if (each.node, each.key) == (node, place.key)]
        return min([end, *found])
