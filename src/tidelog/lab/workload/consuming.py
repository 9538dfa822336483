"""A member of a consumer group: reads what comes, and commits offsets.

Owns the events ``consumed`` (or ``consumed-raw``), ``committed`` and ``found``. Commits are asynchronous:
only those that the cluster confirmed are noted.
"""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidelog.lab.experiment.model import ConsumerSpec
from tidelog.lab.history import HistoryWriter, now_us
from tidelog.lab.load import record_of
from tidelog.lab.workload.jobs import PLAIN_PRODUCER, Job
from tidelog.lab.workload.progress import Reporter

COMMIT_EVERY_S = 0.2
CALL_S = 3.0


class Member:
    def __init__(self, job: Job, group: ConsumerSpec, history: HistoryWriter, reporter: Reporter) -> None:
        self._job, self._group = job, group
        self._history, self._reporter = history, reporter
        self._kind = "consumed" if group.committed else "consumed-raw"
        self._positions: dict[int, int] = {}  # exclusive; not yet committed
        self._commit_at = 0.0
        self._is_committing = False  # One at a time: the client may send two of them in another order.
        self._consumer = Consumer(self._settings())

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._job.bootstrap,
            "client.id": self._job.producer,
            "group.id": self._group.group,
            "isolation.level": "read_committed" if self._group.committed else "read_uncommitted",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "on_commit": self._committed,
            "log_level": 2,
        } | self._group.settings

    def run(self) -> None:
        self._consumer.subscribe([self._job.topic], on_assign=self._assigned, on_revoke=self._revoked)
        while not self._reporter.is_stopping:
            self._take(self._consumer.consume(500, 0.02))
            self._commit()
            self._reporter.tell()
        self._finish()

    def _take(self, messages: list[Message]) -> None:
        now = now_us()
        for message in messages:
            if message.error() is not None:
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            self._positions[partition] = offset + 1
            record = record_of(message.value())
            if record is None or record[0] == PLAIN_PRODUCER:
                self._reporter.note(partition, offset, 0)
                continue
            self._history.add(
                self._kind, now, producer=record[0], sequence=record[1], partition=partition, offset=offset,
                reader=self._group.group,
            )  # fmt: skip
            self._reporter.note(partition, offset)

    def _commit(self) -> None:
        if not self._positions or self._is_committing or time.monotonic() < self._commit_at:
            return
        self._commit_at = time.monotonic() + COMMIT_EVERY_S
        try:
            self._consumer.commit(offsets=self._pending(), asynchronous=True)
        except KafkaException:
            return  # no coordinator now: later
        self._is_committing = True
        self._positions.clear()

    def _pending(self) -> list[TopicPartition]:
        return [TopicPartition(self._job.topic, number, at) for number, at in self._positions.items()]

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self._is_committing = False
        for each in partitions:
            if error is None and each.error is None:
                self._note("committed", each)

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._positions.clear()
        self._find(partitions)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._positions.clear()  # the next owner reads them again

    def _find(self, partitions: list[TopicPartition]) -> None:
        asked = now_us()  # a commit that is confirmed meanwhile may be too late for the answer
        try:
            found = self._consumer.committed(partitions, CALL_S)
        except KafkaException:
            return  # not found out
        for each in found:
            if each.error is None and each.offset >= 0:
                self._note("found", each, asked)

    def _note(self, kind: str, each: TopicPartition, time_us: int | None = None) -> None:
        self._history.add(
            kind, time_us or now_us(), partition=each.partition, offset=each.offset, reader=self._group.group
        )

    def _finish(self) -> None:
        """One last commit, and what the cluster then says of all of them."""
        try:
            if self._positions:
                for each in self._consumer.commit(offsets=self._pending(), asynchronous=False) or []:
                    if each.error is None:
                        self._note("committed", each)
            self._find(self._consumer.assignment())
        except KafkaException:
            pass
        self._consumer.close()


def consume(job: Job, group: ConsumerSpec, history: HistoryWriter, reporter: Reporter) -> None:
    Member(job, group, history, reporter).run()
