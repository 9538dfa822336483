"""Group commit: one sync at a time per partition, and everything written before it began is covered by it.

Also the clock behind ``flush.ms``: on every tick, partitions whose oldest unsynced record is due are synced.
"""

import logging
from collections import deque

from tidelog.broker.partition import Partition
from tidelog.errors import StorageError
from tidelog.log.sync import SyncTicket
from tidelog.services import Services

logger = logging.getLogger(__name__)

RUNNING_MAX = 16  # keeps every disk thread busy; each sync under way holds a few open files


class Syncer:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: set[Partition] = set()
        self._again: set[Partition] = set()  # written to since their sync began
        self._scheduled: set[Partition] = set()
        self._queue: deque[Partition] = deque()  # those of them whose turn comes when another sync is done
        self.syncs = 0

    def want(self, partition: Partition) -> None:
        """Sync soon: after the requests at hand, so that they share it."""
        if partition in self._running:
            self._again.add(partition)
        elif partition not in self._scheduled:
            self._scheduled.add(partition)
            self._services.soon(lambda: self._begin(partition))

    def _begin(self, partition: Partition) -> None:
        if len(self._running) >= RUNNING_MAX:
            self._queue.append(partition)
            return
        self._scheduled.discard(partition)
        # A topic may have been deleted since, and with it everything that waited for this sync.
        if partition in self._running or partition.log.closed:
            return
        if partition.log.failure is not None:
            partition.failed(partition.log.failure)
            return
        try:
            ticket = partition.log.begin_sync()
        except StorageError as error:
            partition.failed(error)
            return
        self._running.add(partition)
        self._services.offload(ticket.run, lambda _: self._done(partition, ticket))

    def _done(self, partition: Partition, ticket: SyncTicket) -> None:
        self._running.discard(partition)
        self.syncs += 1
        self._finish(partition, ticket)
        while self._queue and len(self._running) < RUNNING_MAX:
            self._begin(self._queue.popleft())

    def _finish(self, partition: Partition, ticket: SyncTicket) -> None:
        if partition.log.closed:
            self._again.discard(partition)
            return
        try:
            partition.log.finish_sync(ticket, self._services.now_ms())
        except StorageError as error:
            logger.error("partition %s refuses writes: %s", partition.name, error.message)
            self._again.discard(partition)
            partition.failed(error)
            return
        partition.synced()
        if partition in self._again:
            self._again.discard(partition)
            self.want(partition)
