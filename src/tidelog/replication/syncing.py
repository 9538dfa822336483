"""Group commit over all replicas of a node: one sync at a time per log, a bounded number at once.

Everything written before a sync began is covered by it; what comes later shares the next one.
"""

from collections import deque
from typing import Protocol

from tidelog.errors import StorageError
from tidelog.log.log import Log
from tidelog.log.sync import SyncTicket
from tidelog.services import Services

LATE_MS = 30
RUNNING_MAX = 16  # keeps every disk thread busy; each running sync holds a few open files


class Synced(Protocol):
    """Owner of a log that is synced here."""

    @property
    def log(self) -> Log: ...

    def synced(self) -> None:
        """More of the log is synced than before."""

    def sync_failed(self, error: StorageError) -> None: ...


class Syncer:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._running: set[Synced] = set()
        self._again: set[Synced] = set()  # written since their sync began
        self._scheduled: set[Synced] = set()
        self._queue: deque[Synced] = deque()  # those of them that wait for another sync to end
        self.syncs = 0

    def want(self, wanting: Synced) -> None:
        """Sync soon: after the current requests, so that they share a sync."""
        if wanting in self._running:
            self._again.add(wanting)
        elif wanting not in self._scheduled:
            self._scheduled.add(wanting)
            if self._services.perturb("late sync"):
                self._services.later(LATE_MS, lambda: self._begin(wanting))
            else:
                self._services.soon(lambda: self._begin(wanting))

    def _begin(self, wanting: Synced) -> None:
        if len(self._running) >= RUNNING_MAX:
            self._queue.append(wanting)
            return
        self._scheduled.discard(wanting)
        # The topic may have been deleted since, together with everything that waited for this sync.
        if wanting in self._running or wanting.log.closed:
            return
        if wanting.log.failure is not None:
            wanting.sync_failed(wanting.log.failure)
            return
        try:
            ticket = wanting.log.begin_sync()
        except StorageError as error:
            wanting.sync_failed(error)
            return
        self._running.add(wanting)
        self._services.offload(ticket.run, lambda _: self._done(wanting, ticket))

    def _done(self, wanting: Synced, ticket: SyncTicket) -> None:
        self._running.discard(wanting)
        self.syncs += 1
        try:
            self._finish(wanting, ticket)
        finally:
            while self._queue and len(self._running) < RUNNING_MAX:
                self._begin(self._queue.popleft())

    def _finish(self, wanting: Synced, ticket: SyncTicket) -> None:
        if wanting.log.closed:
            self._again.discard(wanting)
            return
        try:
            wanting.log.finish_sync(ticket, self._services.now_ms())
        except StorageError as error:
            self._again.discard(wanting)
            wanting.sync_failed(error)
            return
        wanting.synced()
        if wanting in self._again:
            self._again.discard(wanting)
            self.want(wanting)
