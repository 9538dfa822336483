"""The writers as Spark calls them: ``write`` in the tasks, ``commit`` and ``abort`` on the driver.

Owns which of the two guarantees is given and how (:mod:`tidelog.spark.writing.sink` says why it holds). Spark
creates a new writer in each process and for each micro-batch, so nothing is remembered here: the tasks'
messages and the brokers tell what the driver must know.
"""

import contextlib
import itertools
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.spark.writing import detached
from tidelog.spark.writing.columns import first_topic
from tidelog.spark.writing.encoder import NULL_TOPIC, Producer, Unwritable
from tidelog.spark.writing.job import Job
from tidelog.spark.writing.ledger import Decision, LedgerState
from tidelog.spark.writing.settings import AT_LEAST_ONCE, EXACTLY_ONCE, WriterSettings
from tidelog.spark.writing.sink import Sink, run_of_driver, sink_of_query
from tidelog.spark.writing.task import TaskWriter, idempotent_producer
from tidelog.spark.writing.task_transaction import TaskTransaction, TimedOut, WrittenOpen
from tidelog.spark.writing.transactions import (
    Participant,
    TransactionLost,
    Transactions,
    UnknownOutcome,
    transactional_id,
)
from tidelog.spark.writing.versions import PLAIN, TRANSACTIONAL, require_brokers

if TYPE_CHECKING:
    import pyarrow as pa

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
_RUN_ID = "spark.jobGroup.id"  # the jobs of a run are one group

ABORT_PATIENCE_MS = 15_000  # stopping a query must not wait long for a cluster that is gone


class RolledBack(ClientError):
    """The checkpoint is older than what was written with it."""


@dataclass
class Written(WriterCommitMessage):
    """A task's message to the driver."""

    records: int = 0
    sink: str = ""
    run: str = ""
    topic: str = ""  # one of those written to
    participant: Participant | None = None  # None: no rows, no transaction, or written by an earlier attempt
    was_decided: bool = False  # an earlier run of the batch decided to commit it


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a query a task is."""

    sink: str
    run: str
    batch_id: int
    task: int
    attempt: int

    @classmethod
    def of_stream(cls) -> "Place":
        context = TaskContext.get()
        told = [
            context.getLocalProperty(name) if context else None for name in (_QUERY_ID, _RUN_ID, _BATCH_ID)
        ]
        query_id, run, batch_id = told
        if context is None or query_id is None or run is None or batch_id is None:
            raise ClientError(
                "Spark does not say which query and micro-batch this is, so it cannot be written exactly "
                "once; use deliveryGuarantee=at-least-once."
            )
        return cls(
            sink_of_query(query_id), run, int(batch_id), context.partitionId(), context.attemptNumber()
        )


class BatchWriter(DataSourceArrowWriter):
    """``df.write``: at least once if tasks fail and are run again; exactly once on request."""

    def __init__(self, settings: WriterSettings) -> None:
        self._settings = settings
        self._name = f"tidelog-write-{uuid.uuid4()}"
        self._created_s = time.time()

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        if not self._settings.exactly_once:
            return _write_plainly(self._settings, iterator)
        context = TaskContext.get()
        task, attempt = (context.partitionId(), context.attemptNumber()) if context is not None else (0, 0)
        rows = with_rows(iterator)
        if rows is None:
            return Written()
        with Cluster(self._settings.client) as cluster:
            require_brokers(cluster, EXACTLY_ONCE, TRANSACTIONAL)
            job = self._job(cluster)
            name = transactional_id(self._name, task, attempt)
            transaction = TaskTransaction(cluster, self._settings, job.transactions, name, job.check)
            try:
                written = transaction.write(rows)
            except TimedOut:
                # Other tasks and attempts would only find out when their own time is up.
                job.time_out()
                raise
            return _told(written, Participant(task, attempt, written.producer), sink=self._name)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        written = _participants(messages)
        if not written:
            return
        with Cluster(self._settings.client) as cluster:
            job = self._job(cluster)
            job.transactions.are_open(self._name, written)
            _commit_all(job.transactions, self._name, written)
            with contextlib.suppress(ClientError, OSError):
                job.end()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Best effort: what cannot be reached is aborted by its timeout."""
        if self._settings.exactly_once:
            detached.finish(self._end)

    def _end(self) -> None:
        with (
            Cluster(self._settings.client, ABORT_PATIENCE_MS) as cluster,
            contextlib.suppress(ClientError, OSError),
        ):
            self._job(cluster).end()

    def _job(self, cluster: Cluster) -> Job:
        return Job(cluster, self._name, self._created_s)


class StreamWriter(DataSourceStreamArrowWriter):
    """``df.writeStream``: exactly once, or at least once on request. ``place`` is asked in each task."""

    def __init__(self, settings: WriterSettings, place: Callable[[], Place] = Place.of_stream) -> None:
        self._settings = settings
        self._place = place

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Written:
        if not self._settings.exactly_once:
            return _write_plainly(self._settings, iterator)
        place = self._place()
        rows = with_rows(iterator)
        with Cluster(self._settings.client) as cluster:
            require_brokers(cluster, EXACTLY_ONCE, TRANSACTIONAL)
            sink = Sink(cluster, self._settings, place.sink)
            if rows is None:
                state = sink.ledger.read()
            else:
                first = next(rows)
                rows = itertools.chain([first], rows)
                topic = self._settings.topic or first_topic(first)
                if topic is None:
                    raise Unwritable(NULL_TOPIC)
                state = sink.take_over(place.run, topic, place.task)
            return self._write(cluster, sink, state, place, rows)

    def _write(
        self,
        cluster: Cluster,
        sink: Sink,
        state: LedgerState,
        place: Place,
        rows: Iterator["pa.RecordBatch"] | None,
    ) -> Written:
        decision = state.decision
        was_decided = decision is not None and decision.batch_id == place.batch_id
        if decision is not None and decision.batch_id > place.batch_id:
            raise RolledBack(
                f"Batch {place.batch_id} is to be written, but batch {decision.batch_id} of this query was: "
                "its checkpoint is older than its output. Restore the newer checkpoint, or delete the group "
                f"{place.sink} to write these batches once more."
            )
        if decision is not None and was_decided:
            # Commit what this task wrote then, or write it again if it was aborted.
            earlier = decision.of_task(place.task)
            if earlier is None or sink.transactions.commit(earlier.name(place.sink), earlier.producer):
                for _ in rows or ():  # or Spark complains that the data is not read
                    pass
                rows = None
        if rows is None:
            return Written(sink=place.sink, run=place.run, was_decided=was_decided)

        def check(timeout_ms: int) -> None:
            sink.check(place.run, None if was_decided else place.batch_id)

        name = transactional_id(place.sink, place.task, place.attempt)
        written = TaskTransaction(cluster, self._settings, sink.transactions, name, check).write(rows)
        participant = Participant(place.task, place.attempt, written.producer)
        return _told(written, participant, place.sink, place.run, was_decided)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        told = [one for one in messages if isinstance(one, Written) and one.sink]
        fresh = _participants(messages)
        if not told:
            return
        with Cluster(self._settings.client) as cluster:
            sink, run = Sink(cluster, self._settings, told[0].sink), told[0].run
            if any(one.was_decided for one in told):
                decision = _decided_again(sink.ledger.read().decision, fresh, len(messages), batchId)
            else:
                decision = Decision(batchId, len(messages), tuple(fresh))
            if fresh:
                topic = next(one.topic for one in told if one.participant is not None)
                sink.decide(run, decision, fresh, topic)
            _commit_all(sink.transactions, sink.name, decision.participants)
            with contextlib.suppress(ClientError, OSError):
                sink.end_batch(run)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Spark calls this when a task failed for good, when the query is stopped in the middle of a batch,
        and after a failed commit. In all cases the run is over.
        """
        if not self._settings.exactly_once:
            return
        told = [one for one in messages if isinstance(one, Written) and one.sink]
        detached.finish(lambda: self._end_run(told[0] if told else None))

    def _end_run(self, told: Written | None) -> None:
        with (
            Cluster(self._settings.client, ABORT_PATIENCE_MS) as cluster,
            contextlib.suppress(ClientError, OSError),
        ):
            if told is not None:
                Sink(cluster, self._settings, told.sink).end_run(told.run)
            elif found := run_of_driver(cluster, self._settings):
                sink, run = found
                sink.end_run(run)


def with_rows(batches: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"] | None:
    """The same, from the first batch with rows on; None: there are no rows, so there is nothing to write."""
    for batch in batches:
        if batch.num_rows:
            return itertools.chain([batch], batches)
    return None


def _decided_again(earlier: Decision | None, fresh: list[Participant], tasks: int, batch_id: int) -> Decision:
    """The earlier decision, with rewritten transactions in place of aborted ones."""
    if earlier is None or earlier.batch_id != batch_id:
        raise UnknownOutcome(
            f"The decision about batch {batch_id} is gone: another query writes with this checkpoint."
        )
    if fresh and earlier.tasks != tasks:
        raise UnknownOutcome(
            f"Batch {batch_id} was written in part, by {earlier.tasks} tasks; now there are {tasks}, so it "
            "cannot be completed. Run it with the parallelism of the first time."
        )
    if not fresh:
        return earlier
    again = {one.task for one in fresh}
    kept = [one for one in earlier.participants if one.task not in again]
    return Decision(batch_id, tasks, tuple(sorted((*kept, *fresh))), earlier.round + 1)


def _write_plainly(settings: WriterSettings, iterator: Iterator["pa.RecordBatch"]) -> Written:
    with Cluster(settings.client) as cluster:
        require_brokers(cluster, AT_LEAST_ONCE, PLAIN)
        producer = Producer()
        if settings.idempotent:
            producer = Producer(*idempotent_producer(cluster))
        return Written(TaskWriter(cluster, settings, producer).write(iterator))


def _told(
    written: WrittenOpen, participant: Participant, sink: str, run: str = "", was_decided: bool = False
) -> Written:
    return Written(written.records, sink, run, written.topics[0], participant, was_decided)


def _participants(messages: Sequence[WriterCommitMessage | None]) -> list[Participant]:
    return sorted(
        one.participant for one in messages if isinstance(one, Written) and one.participant is not None
    )


def _commit_all(transactions: Transactions, sink: str, participants: Sequence[Participant]) -> None:
    lost = [one for one in participants if not transactions.commit(one.name(sink), one.producer)]
    if lost:
        raise TransactionLost(
            f"{len(lost)} of {len(participants)} transactions of {sink} were aborted before they could be "
            f"committed."
        )
