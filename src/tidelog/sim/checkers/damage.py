"""Bits that flipped in old segments, and whether the damage is still there.

A replica with damaged records may drop everything from the first of them on, and gets it back from others: as
long as it has not, it counts as one that lost them. Whether it has is looked up on its disk.
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
    offset: int  # Everything before it is whole.
    planted: bytes = b""  # What is there instead of the batch; empty: something that is no whole batch.

    def is_there(self) -> bool:
        """Whether the batch is still damaged; it may have been dropped, too, or have come again."""
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


class DamageChecker:
    def __init__(self) -> None:
        self._known: list[Damage] = []

    def noted(self, damage: Damage) -> None:
        self._known.append(damage)

    def there(self) -> list[Damage]:
        """What nobody has repaired yet."""
        self._known = [damage for damage in self._known if damage.is_there()]
        return self._known

    def nodes(self, place: Place) -> set[int]:
        """Whose replicas of the partition are damaged."""
        if not self._known:
            return set()
        return {damage.node for damage in self.there() if damage.key == place.key}

    def first(self, place: Place, node: int, end: int) -> int:
        """Up to where the log of a node is whole, at most ``end``."""
        found = [each.offset for each in self.there() if (each.node, each.key) == (node, place.key)]
        return min([end, *found])
