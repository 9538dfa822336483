"""A batch job that writes exactly once: its transactions, and the mark that it is over.

Owns the mark: the transactional id with the name of the job itself. It is there as soon as the job is over,
well or not. A task takes its own name first and looks for the mark then; who ends the job sets the mark first
and ends the open transactions then. So no late task leaves a transaction open.
"""

import time

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError, Refused
from tidelog.errors import ErrorCode
from tidelog.spark.writing.coordinator import Coordinators
from tidelog.spark.writing.sweeping import end_all, open_transactions
from tidelog.spark.writing.task_transaction import TimedOut, timed_out
from tidelog.spark.writing.transactions import EMPTY, FENCE_TIMEOUT_MS, ONGOING, Transactions

_TIMED_OUT_MS = FENCE_TIMEOUT_MS + 1  # the timeout of the mark tells why the job is over


class JobEnded(ClientError):
    """A task or an attempt that comes too late."""


class Job:
    """``created_s``: when the driver planned its tasks."""

    def __init__(self, cluster: Cluster, name: str, created_s: float) -> None:
        self.name = name
        self.transactions = Transactions(cluster, Coordinators(cluster))
        self._created_s = created_s

    def check(self, timeout_ms: int) -> None:
        """Raises if the job is over, or if a transaction of it timed out: the rest would be for nothing."""
        found = self.transactions.describe([self.name])[self.name]
        is_late = time.time() - self._created_s > timeout_ms / 1000
        if found.error == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            if is_late and self._has_lost():
                self.time_out()
                raise TimedOut(timed_out(timeout_ms))
            return
        if found.error:
            raise Refused(f"The transaction {self.name} cannot be described", found.error)
        if found.timeout_ms == _TIMED_OUT_MS:
            raise TimedOut(timed_out(timeout_ms))
        raise JobEnded(f"The job {self.name} is over; this task of it comes too late.")

    def _has_lost(self) -> bool:
        """Whether no attempt of some task that began is open."""
        states: dict[str, set[str]] = {}
        for one in self.transactions.listed(f"{self.name}-"):
            states.setdefault(one.name.rpartition("-")[0], set()).add(one.state)
        return any(not found & {EMPTY, ONGOING} for found in states.values())

    def time_out(self) -> None:
        """No task or attempt that starts from now on writes, and each says why."""
        self.transactions.begin(self.name, _TIMED_OUT_MS)

    def end(self) -> None:
        """Whatever is open is aborted; to be called after what is to stay was committed."""
        self.transactions.begin(self.name, FENCE_TIMEOUT_MS)
        end_all(self.transactions, open_transactions(self.transactions, f"{self.name}-"), {})
