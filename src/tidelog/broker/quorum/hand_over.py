"""Transfers leadership from an elected leader to another voter, the heir. The leader waits until the heir has
nearly all records, refuses writes, waits for the rest, and tells the heir to start an election immediately.

The transfer may fail. If the heir does not catch up in time, writes are accepted again and the transfer is
retried later.
"""

from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import Peers, StandNow
from tidelog.replication.replica import Role
from tidelog.services import Services, Timer

LOOK_MS = 5
CLOSED_MS = 400  # Writes are refused for at most this time.
AGAIN_MS = 3000
LATE_MS = 500  # Longer than CLOSED_MS.


class HandOver:
    def __init__(self, driver: ReplicaDriver, heir: int, services: Services, peers: Peers) -> None:
        self._driver = driver
        self.heir = heir
        self._services = services
        self._peers = peers
        self._epoch = driver.replica.epoch
        self._closed_ms: int | None = None  # since when writes are refused
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._services.later(LOOK_MS, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._open()

    def _open(self) -> None:
        self._closed_ms = None
        self._driver.replica.end_hand_over()

    def _look(self) -> None:
        replica = self._driver.replica
        if replica.role is not Role.LEADER or replica.epoch != self._epoch or self._driver.closed:
            self._open()
            return
        pause_ms = self._step(self._services.uptime_ms())
        late = self._services.perturb("late hand-over")
        self._timer = self._services.later(LATE_MS if late else pause_ms, self._look)

    def _step(self, now_ms: int) -> int:
        """Do the next step; returns the time until the following one."""
        replica = self._driver.replica
        progress = replica.progress.get(self.heir)
        if progress is None or not progress.seen or replica.high_watermark <= replica.epoch_start_offset:
            return LOOK_MS * 10
        if self._closed_ms is not None and now_ms - self._closed_ms > CLOSED_MS:
            self._open()
            return AGAIN_MS
        if self._closed_ms is None and progress.end_offset >= replica.high_watermark:
            self._closed_ms = now_ms
            replica.begin_hand_over()
        if self._closed_ms is not None and progress.end_offset >= replica.log.end_offset:
            self._peers.send(self.heir, StandNow(replica.me, self._driver.key, replica.epoch))
            return LOOK_MS * 20
        return LOOK_MS
