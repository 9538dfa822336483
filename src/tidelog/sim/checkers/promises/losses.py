"""Which replicas may lack what they once held: tracked from outside, for all modes together, because a topic
may change its mode while one of its replicas has not fetched again what it lost.
"""

from collections.abc import Container

from tidelog.controller.image import PartitionImage
from tidelog.controller.successions import is_restoring
from tidelog.sim.checkers.promises.failed_writes import FailedWrites
from tidelog.sim.checkers.promises.place import Key, Place

NOTHING_LOST = 1 << 62


class Losses:
    def __init__(self) -> None:
        # By node: its log end at that time; NOTHING_LOST if the controllers may not know.
        self._unsound: dict[Key, dict[int, int]] = {}
        self._for_good: dict[Key, set[int]] = {}  # those of them that also lost what they had synced
        self._deceived: dict[Key, set[int]] = {}  # those whose disk had reported syncs that it had not done
        # Those of them that are not members: joining heals. A further loss leaves them here: a member that
        # joins before it is back had caught up before that loss.
        self._out: dict[Key, set[int]] = {}
        # Lost since the controllers last registered a process there: the log end, whether for good, and
        # whether the disk had lied.
        self._latest: dict[tuple[Key, int], tuple[int, bool, bool]] = {}
        self._count: dict[Key, int] = {}
        # Not yet known to the controllers: whether it is lost permanently, or only if it was not synced.
        self._unheard: dict[tuple[Key, int], bool] = {}
        self._presumed: dict[Key, set[int]] = {}  # see :meth:`presumed`
        self.failed_writes = FailedWrites()  # what may count as lost soon

    def keys(self) -> list[Key]:
        """Partitions with replicas that may lack something."""
        return [key for key, nodes in self._unsound.items() if nodes]

    def of(self, key: Key) -> dict[int, int]:
        return self._unsound.get(key, {})

    def real(self, key: Key) -> dict[int, int]:
        """Without those that only count as having lost something."""
        return {node: end for node, end in self.of(key).items() if end < NOTHING_LOST}

    def tails(self, key: Key) -> dict[int, int]:
        """Those that lost only what they had not synced."""
        gone = self._for_good.get(key, set())
        return {node: end for node, end in self.real(key).items() if node not in gone}

    def more_than_tails(self, key: Key) -> set[int]:
        """Those that lost what they had synced, or had been told was synced. They may notice that."""
        gone = self._for_good.get(key, set()) | self._deceived.get(key, set())
        return gone & self.real(key).keys()

    def presumed(self, key: Key) -> set[int]:
        """Those that the controllers must take for having lost what was not synced, whatever they lost: when
        they heard of the power failure, nothing required that everything acknowledged was synced.
        """
        return self._presumed.get(key, set())

    def count(self, key: Key) -> int:
        """The number of losses so far: a judgement is repeated after the next one."""
        return self._count.get(key, 0)

    def note(self, key: Key, node: int, end: int, *, for_good: bool, lied: bool = False) -> None:
        """A replica may have lost everything from ``end`` on; ``for_good``: also what it had synced.
        ``lied``: its disk had reported syncs that it had not done.
        """
        self._lacks(key, node, end, for_good=for_good, lied=lied)
        before, gone, deceived = self._latest.get((key, node), (NOTHING_LOST, False, False))
        self._latest[key, node] = min(before, end), gone or for_good, deceived or lied
        self._count[key] = self.count(key) + 1

    def _lacks(self, key: Key, node: int, end: int, *, for_good: bool, lied: bool) -> None:
        if lied:
            self._deceived.setdefault(key, set()).add(node)
        if for_good:
            self._for_good.setdefault(key, set()).add(node)
        if end < NOTHING_LOST:
            self._unheard[key, node] = for_good or self._unheard.get((key, node), False)
        known = self._unsound.setdefault(key, {})
        known[node] = min(known.get(node, NOTHING_LOST), end)

    def confirmed(self, key: Key, node: int) -> None:
        """The controllers have its confirmation that its whole log is synced. It gives one only after it has
        registered, and so has reported what it had lost before: no later report is about that, whatever the
        topic's settings are by then.
        """
        if self._unheard.get((key, node)) is False:
            del self._unheard[key, node]

    def confessed(self, key: Key, node: int, *, synced: bool) -> bool:
        """The controllers know that it may have lost something; returns whether it has since they last knew.
        ``synced``: it had confirmed before that everything was synced.
        """
        self._unsound.setdefault(key, {}).setdefault(node, NOTHING_LOST)
        if not synced:
            self._presumed.setdefault(key, set()).add(node)
        for_good = self._unheard.pop((key, node), None)
        return for_good is not None and (for_good or not synced)

    def healed(self, key: Key, node: int) -> None:
        """It has fetched again what it had lost, and the loss was never known."""
        self.of(key).pop(node, None)
        self._for_good.get(key, set()).discard(node)
        self._deceived.get(key, set()).discard(node)
        self._presumed.get(key, set()).discard(node)
        self._unheard.pop((key, node), None)

    def note_joined(self, place: Place, damaged: Container[int], not_back: Container[int]) -> None:
        """A replica that left the set and is a member again has caught up with a leader, or copied from
        others. Not so one that is ``damaged`` and does not know it yet. One that is ``not_back`` has not
        registered since it lost power: it is a member for what it had before that.
        """
        out = self._out.setdefault(place.key, set())
        for node in list(self.of(place.key)):
            if node not in not_back and self._latest.pop((place.key, node), None) is not None:
                out.discard(node)
            if node in damaged:
                out.discard(node)
            elif node not in trusted(place.partition):
                out.add(node)
            elif node in out and node in place.partition.in_sync:
                out.discard(node)
                self._joined(place.key, node)

    def _joined(self, key: Key, node: int) -> None:
        """It had caught up. Only what it lost after that is still lost, and not yet known to the
        controllers.
        """
        latest = self._latest.get((key, node))
        self.healed(key, node)
        if latest is not None:
            end, for_good, lied = latest
            self._lacks(key, node, end, for_good=for_good, lied=lied)


def trusted(partition: PartitionImage) -> set[int]:
    """The replicas that the controllers consider complete."""
    return {*partition.in_sync, *partition.eligible}


def stays_decided(before: PartitionImage, now: PartitionImage) -> bool:
    """Whether a forced leader only has another epoch: it still collects what others hold."""
    return (
        before.leader == now.leader
        and before.unclean_epoch == before.leader_epoch == now.leader_epoch - 1
        and is_restoring(before)
        and is_restoring(now)
    )
