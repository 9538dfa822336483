"""One task's rows in a transaction that is left open for the driver.

Owns the time it may take: Kafka aborts a transaction after its timeout, and nothing can extend it. A task
whose time is up ends at once instead of writing on for nothing.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.client.messages import TopicPartition
from tidelog.spark.writing.encoder import Producer
from tidelog.spark.writing.messages import ProducerId
from tidelog.spark.writing.settings import WriterSettings
from tidelog.spark.writing.task import TaskWriter
from tidelog.spark.writing.transactions import MAX_TIMEOUT_SETTING, Transactions, is_gone

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_TIMEOUT_MS = 900_000  # the brokers' limit unless they are set up otherwise


class TimedOut(ClientError):
    """The brokers aborted a transaction because of its timeout."""


class WrittenOpen(NamedTuple):
    """What a task wrote, in a transaction that is open."""

    records: int
    topics: list[str]
    producer: ProducerId


def timed_out(timeout_ms: int) -> str:
    return (
        f"The brokers abort a transaction after {timeout_ms / 1000:g} s (kafka.transaction.timeout.ms), and "
        "not everything was written by then, so nothing is: write in parts, raise the brokers' "
        f"{MAX_TIMEOUT_SETTING} and this option, or use deliveryGuarantee=at-least-once, which has no limit."
    )


class TaskTransaction:
    """``check`` raises if the task is no longer wanted; it is asked between taking the name and writing."""

    def __init__(
        self,
        cluster: Cluster,
        settings: WriterSettings,
        transactions: Transactions,
        name: str,
        check: Callable[[int], None],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._transactions = transactions
        self._name = name
        self._check = check
        self._deadline: float | None = None  # from the first partition on
        self._timeout_ms = (
            settings.transaction_timeout_ms or transactions.timeout_ms_max() or DEFAULT_TIMEOUT_MS
        )

    def write(self, rows: Iterable["pa.RecordBatch"]) -> WrittenOpen:
        producer = self._transactions.begin(self._name, self._timeout_ms)
        self._check(self._timeout_ms)

        def add(partitions: list[TopicPartition]) -> None:
            self._deadline = self._deadline or time.monotonic() + self._timeout_ms / 1000
            self._transactions.add(self._name, producer, partitions)

        writer = TaskWriter(
            self._cluster,
            self._settings,
            Producer(*producer, transactional=True),
            transactional_id=self._name,
            before_first=add,
        )
        try:
            records = writer.write(self._in_time(rows))
        except BaseException as error:
            with contextlib.suppress(ClientError, OSError):
                self._transactions.abort(self._name, producer)
            if isinstance(error, ClientError) and is_gone(error) and self._is_late:
                raise TimedOut(timed_out(self._timeout_ms)) from error
            raise
        return WrittenOpen(records, writer.topics, producer)

    def _in_time(self, rows: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in rows:
            if self._is_late:
                raise TimedOut(timed_out(self._timeout_ms))
            yield batch

    @property
    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline
