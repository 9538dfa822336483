"""From when on a topic's setting to sync counts, seen from outside.

When ``flush.messages=1`` is set, or a topic changes to a mode that syncs, there is a backlog: records that
were acknowledged before and are not on disk yet. The setting counts on a node once it knows of it and its log
is synced up to its end at that time; until then a power failure there costs the same as without the setting.
"""

from collections.abc import Callable, Iterable

from tidelog.broker.node.node import Node
from tidelog.sim.checkers.promises.place import Key, Place

UNKNOWN = -1  # The node's log end was not seen: it was down.


class Syncing:
    def __init__(self, nodes: Callable[[], Iterable[Node]]) -> None:
        self._nodes = nodes  # those alive
        self._wanted: dict[Key, bool] = {}
        self._backlogs: dict[Key, dict[int, int]] = {}  # by node: up to where its log must be synced first

    def described(self, place: Place, *, wanted: bool) -> None:
        """The newest metadata says so."""
        before = self._wanted.get(place.key, wanted)
        self._wanted[place.key] = wanted
        if not wanted:
            self._backlogs.pop(place.key, None)
        elif not before:
            self._backlogs[place.key] = dict.fromkeys(place.partition.replicas, UNKNOWN)
            self._look(place.key)

    def look(self) -> None:
        """Call before a process ends, while its logs can still be read."""
        for key in list(self._backlogs):
            self._look(key)

    def holds(self, place: Place, node: int) -> bool:
        """Whether the node's log is synced as the topic requires."""
        if place.key in self._backlogs:
            self._look(place.key)
        return self._wanted.get(place.key, False) and node not in self._backlogs.get(place.key, ())

    def _look(self, key: Key) -> None:
        waiting = self._backlogs[key]
        for node in self._nodes():
            driver = node.host.drivers.get(key)
            if node.me not in waiting or driver is None:
                continue
            if waiting[node.me] == UNKNOWN:
                waiting[node.me] = driver.log.end_offset
            if not driver.replica.limits.durable:
                continue  # It does not know of the setting: earlier syncs were a coincidence.
            # It may have been truncated since: then nothing is left to sync.
            if driver.log.synced_end_offset >= min(waiting[node.me], driver.log.end_offset):
                del waiting[node.me]
        if not waiting:
            del self._backlogs[key]
