"""The writers as Spark calls them: ``write`` in the tasks, ``commit`` and ``abort`` on the driver.

Owns which of the two guarantees is given and how (:mod:`tidelog.spark.writing.transactions` says why it
holds). Spark creates a new writer in each process and for each micro-batch, so nothing is remembered here:
the tasks' messages carry what the driver must know.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.client.messages import TopicPartition
from tidelog.spark.writing.coordinator import Coordinators
from tidelog.spark.writing.encoder import Producer
from tidelog.spark.writing.settings import WriterSettings
from tidelog.spark.writing.task import TaskWriter, idempotent_producer
from tidelog.spark.writing.transactions import (
    Decision,
    Ledger,
    Participant,
    TransactionLost,
    Transactions,
    UnknownOutcome,
    sink_of_query,
    transactional_id,
)

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


class RolledBack(ClientError):
    """The checkpoint is older than what was written with it."""


@dataclass
class Written(WriterCommitMessage):
    """A task's message to the driver."""

    records: int = 0
    sink: str = ""
    topic: str = ""  # one of those written to
    participant: Participant | None = None  # None: no rows, no transaction, or written by an earlier attempt
    was_decided: bool = False  # an earlier run of the batch decided to commit it


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a query a task is."""

    sink: str
    batch_id: int
    task: int
    attempt: int

    @classmethod
    def of_stream(cls) -> "Place":
        context = TaskContext.get()
        query_id = context.getLocalProperty(_QUERY_ID) if context is not None else None
        batch_id = context.getLocalProperty(_BATCH_ID) if context is not None else None
        if context is None or query_id is None or batch_id is None:
            raise ClientError(
                "Spark does not say which query and micro-batch this is, so it cannot be written exactly "
                "once; "
                "use deliveryGuarantee=at-least-once."
            )
        return cls(sink_of_query(query_id), int(batch_id), context.partitionId(), context.attemptNumber())


class BatchWriter(DataSourceArrowWriter):
    """``df.write``: at least once if tasks fail and are run again; exactly once on request."""

    def __init__(self, settings: WriterSettings) -> None:
        self._settings = settings
        self._sink = f"tidelog-write-{uuid.uuid4()}"

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        if not self._settings.exactly_once:
            return _write_plainly(self._settings, iterator)
        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        with Cluster(self._settings.client) as cluster:
            return _write_in_transaction(cluster, self._settings, self._sink, task, attempt, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        written = _participants(messages)
        if not written:
            return
        with Cluster(self._settings.client) as cluster:
            transactions = Transactions(Coordinators(cluster))
            transactions.are_open(self._sink, written)
            _commit_all(transactions, self._sink, written)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Best effort: unreachable ones are aborted by their timeout."""
        participants = _participants(messages)
        if not participants:
            return
        with Cluster(self._settings.client) as cluster, contextlib.suppress(ClientError, OSError):
            _abort_all(Transactions(Coordinators(cluster)), self._sink, participants)


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``: exactly once, or at least once on request. ``place`` is asked in each task."""

    def __init__(self, settings: WriterSettings, place: Callable[[], Place] = Place.of_stream) -> None:
        self._settings = settings
        self._place = place

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        if not self._settings.exactly_once:
            return _write_plainly(self._settings, iterator)
        place = self._place()
        with Cluster(self._settings.client) as cluster:
            coordinators = Coordinators(cluster)
            decision = Ledger(coordinators, place.sink).read()
            if decision is None or decision.batch_id < place.batch_id:
                return _write_in_transaction(
                    cluster, self._settings, place.sink, place.task, place.attempt, iterator
                )
            if decision.batch_id > place.batch_id:
                raise RolledBack(
                    f"Batch {place.batch_id} is to be written, but batch {decision.batch_id} of this query "
                    f"was: "
                    f"its checkpoint is older than its output. Restore the newer checkpoint, or delete the "
                    f"group "
                    f"{place.sink} to write these batches once more."
                )
            return self._settle(cluster, coordinators, decision, place, iterator)

    def _settle(
        self,
        cluster: Cluster,
        coordinators: Coordinators,
        decision: Decision,
        place: Place,
        iterator: Iterator["pa.RecordBatch"],
    ) -> Written:
        """The batch was decided before: commit what this task wrote then, or write it again if it was
        aborted.
        """
        earlier = decision.of_task(place.task)
        if earlier is None or Transactions(coordinators).commit(earlier.name(place.sink), earlier.producer):
            for _ in iterator:  # or Spark complains that the data is not read
                pass
            return Written(sink=place.sink, was_decided=True)
        written = _write_in_transaction(
            cluster, self._settings, place.sink, place.task, place.attempt, iterator
        )
        written.was_decided = True
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        told = [one for one in messages if isinstance(one, Written) and one.sink]
        participants = _participants(messages)
        if not told:
            return
        sink = told[0].sink
        with Cluster(self._settings.client) as cluster:
            coordinators = Coordinators(cluster)
            transactions, ledger = Transactions(coordinators), Ledger(coordinators, sink)
            if any(one.was_decided for one in told):
                decision = _decided_again(ledger.read(), participants, len(messages), batchId)
            else:
                decision = Decision(batchId, len(messages), tuple(participants))
            transactions.are_open(sink, participants)
            if participants:
                topic = next(one.topic for one in told if one.participant is not None)
                ledger.write(decision, topic)
            _commit_all(transactions, sink, decision.participants)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Spark calls this after a failed commit, too: a decided batch must not be aborted."""
        sinks = [one.sink for one in messages if isinstance(one, Written) and one.sink]
        participants = _participants(messages)
        if not participants:
            return
        with Cluster(self._settings.client) as cluster, contextlib.suppress(ClientError, OSError):
            coordinators = Coordinators(cluster)
            decision = Ledger(coordinators, sinks[0]).read()
            if decision is None or decision.batch_id < batchId:
                _abort_all(Transactions(coordinators), sinks[0], participants)


def _decided_again(earlier: Decision | None, fresh: list[Participant], tasks: int, batch_id: int) -> Decision:
    """The earlier decision, with rewritten transactions in place of aborted ones."""
    if earlier is None or earlier.batch_id != batch_id:
        raise UnknownOutcome(
            f"The decision about batch {batch_id} is gone: another query writes with this checkpoint."
        )
    if fresh and earlier.tasks != tasks:
        raise UnknownOutcome(
            f"Batch {batch_id} was written in part, by {earlier.tasks} tasks; now there are {tasks}, so it "
            f"cannot be "
            "completed. Run it with the parallelism of the first time."
        )
    if not fresh:
        return earlier
    again = {one.task for one in fresh}
    kept = [one for one in earlier.participants if one.task not in again]
    return Decision(batch_id, tasks, (*kept, *fresh), earlier.round + 1)


def _write_plainly(settings: WriterSettings, iterator: Iterator["pa.RecordBatch"]) -> Written:
    with Cluster(settings.client) as cluster:
        producer = Producer()
        if settings.idempotent:
            producer = Producer(*idempotent_producer(cluster))
        return Written(TaskWriter(cluster, settings, producer).write(iterator))


def _write_in_transaction(
    cluster: Cluster,
    settings: WriterSettings,
    sink: str,
    task: int,
    attempt: int,
    iterator: Iterator["pa.RecordBatch"],
) -> Written:
    """The rows in a transaction that is left open for the driver."""
    name = transactional_id(sink, task, attempt)
    transactions = Transactions(Coordinators(cluster))
    producer = transactions.begin(name, settings.transaction_timeout_ms)

    def add(partitions: list[TopicPartition]) -> None:
        transactions.add(name, producer, partitions)

    writer = TaskWriter(
        cluster,
        settings,
        Producer(*producer, transactional=True),
        transactional_id=name,
        before_first=add,
    )
    try:
        records = writer.write(iterator)
    except BaseException:
        with contextlib.suppress(ClientError, OSError):
            transactions.abort(name, producer)
        raise
    if not writer.topics:
        return Written(sink=sink)
    return Written(records, sink, writer.topics[0], Participant(task, attempt, producer))


def _participants(messages: Sequence[WriterCommitMessage | None]) -> list[Participant]:
    return [one.participant for one in messages if isinstance(one, Written) and one.participant is not None]


def _commit_all(transactions: Transactions, sink: str, participants: Sequence[Participant]) -> None:
    lost = [one for one in participants if not transactions.commit(one.name(sink), one.producer)]
    if lost:
        raise TransactionLost(
            f"{len(lost)} of {len(participants)} transactions of {sink} were aborted before they could be "
            f"committed."
        )
    for one in participants:
        _abort_failed_attempts(transactions, sink, one)


def _abort_failed_attempts(transactions: Transactions, sink: str, winner: Participant) -> None:
    """Open transactions of earlier attempts would hold back readers until their timeout."""
    for attempt in range(winner.attempt):
        with contextlib.suppress(ClientError, OSError):
            transactions.begin(transactional_id(sink, winner.task, attempt), 1000)


def _abort_all(transactions: Transactions, sink: str, participants: Sequence[Participant]) -> None:
    for one in participants:
        transactions.abort(one.name(sink), one.producer)
