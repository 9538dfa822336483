"""Follows who leads while a round runs, and notices when all replicas are in sync."""

import threading
from collections.abc import Callable, Sequence

from tidelog.client.cluster_view import PartitionView
from tidelog.lab.history import HistoryFailed
from tidelog.lab.targets.base import Target

INTERVAL_S = 0.15


class Watcher:
    """A thread that asks the brokers; ``note(topic, leader)`` gets the leader of partition 0, -1 for none."""

    def __init__(self, target: Target, topics: Sequence[str], note: Callable[[str, int], None]) -> None:
        self._target, self._topics, self._note = target, list(topics), note
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._newest: dict[str, list[PartitionView]] = {}
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def leaders(self) -> dict[str, int]:
        """Of partition 0, by topic."""
        with self._lock:
            return {topic: _leader(self._newest.get(topic, [])) for topic in self._topics}

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL_S):
            try:
                found = self._target.view(*self._topics).topics
            except OSError:
                found = {}
            with self._lock:
                self._newest = found
            try:
                for topic, leader in self.leaders.items():
                    self._note(topic, leader)
            except HistoryFailed:
                return  # The thread that adds the next event learns of it, too.


def _leader(partitions: Sequence[PartitionView]) -> int:
    return partitions[0].leader if partitions else -1
