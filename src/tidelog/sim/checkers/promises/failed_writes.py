"""Nodes that were restarted after their disks refused to write, until the controllers know their new
processes.

Such a node has lost nothing. Whether the controllers still rely on its replicas depends on what had reached
them before it registered again.
"""

from collections.abc import Mapping
from uuid import UUID

from tidelog.sim.checkers.promises.place import Key


class FailedWrites:
    def __init__(self) -> None:
        # By node: the process that was registered when it restarted (None: none), and where its log ends.
        self._ends: dict[Key, dict[int, tuple[UUID | None, int]]] = {}

    def keys(self) -> list[Key]:
        return list(self._ends)

    def nodes(self, key: Key) -> list[int]:
        return list(self._ends.get(key, ()))

    def note(self, key: Key, node: int, process: UUID | None, end: int) -> None:
        self._ends.setdefault(key, {})[node] = process, end

    def back(self, key: Key, processes: Mapping[int, UUID]) -> list[tuple[int, int]]:
        """The nodes that have registered since, with their log ends: once each."""
        waiting = self._ends.pop(key, {})
        back = {node for node, (process, _) in waiting.items() if processes.get(node, process) != process}
        rest = {node: each for node, each in waiting.items() if node not in back}
        if rest:
            self._ends[key] = rest
        return [(node, waiting[node][1]) for node in sorted(back)]
