"""Flipped bits in old segments, and whether the damage is still there.

A replica with damaged records may truncate everything from the first of them on, and fetches it again: until
then, it counts as one that lost them. Its disk shows whether it has.
"""

from collections.abc import Iterator
from functools import partial
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
        """Whether the log still reaches back to it."""
        return min(self._bases(), default=self.offset + 1) <= self.offset

    def is_followed(self) -> bool:
        """Whether a later segment is there."""
        return max(self._bases(), default=0) > self.offset

    def _bases(self) -> Iterator[int]:
        names = self.disk.contents(self.path.rpartition("/")[0])
        return (int(name.rpartition("/")[2].removesuffix(".log")) for name in names if name.endswith(".log"))


class DamageChecker:
    def __init__(self) -> None:
        self._known: list[Damage] = []
        self._cut: set[Damage] = set()  # Dropped with what followed, before their files went.
        self._dropped: list[Damage] = []

    def noted(self, damage: Damage) -> None:
        self._known.append(damage)
        damage.disk.leaving = partial(self._leaves, damage.disk)

    def _leaves(self, disk: SimulatedDisk, path: str) -> None:
        """A file is about to be renamed or removed. Retention and deletions take a segment as it is, while
        later ones are there. A log that drops everything goes from the end to the start, and may begin again
        after the damage: where the leader's log starts.
        """
        here = [damage for damage in self._known if damage.disk is disk and damage.path == path]
        self._cut.update(each for each in here if not (each.is_there() and each.is_followed()))

    def there(self) -> list[Damage]:
        """Damage that is not repaired yet."""
        known, self._known = self._known, []
        for damage in known:
            is_cut = damage in self._cut
            self._cut.discard(damage)
            if damage.is_there():
                self._known.append(damage)
            elif is_cut or damage.is_within_log():
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
