"""A transactional producer: some records, then a commit, again and again.

Owns what a record's event says: it is acknowledged only when its transaction is, aborted when its transaction
surely was, and failed where no one knows.
"""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tidelog.lab.experiment.model import LoadSpec
from tidelog.lab.history import HistoryWriter, now_us
from tidelog.lab.workload.jobs import Job
from tidelog.lab.workload.producing import TICK_S, Pace, Sender, Sent, client_settings, give_up
from tidelog.lab.workload.progress import Reporter

CALL_S = 5.0  # one attempt; retried as long as the client says so
END_S = 15.0


class Transactions:
    """One producer and its transactions, one after the other."""

    def __init__(self, job: Job, load: LoadSpec, history: HistoryWriter, reporter: Reporter) -> None:
        self._job, self._load, self._reporter = job, load, reporter
        self._producer = Producer(client_settings(job, load))
        self._sender = Sender(job, load, self._producer, history)
        self._number = 0
        self._open: list[tuple[Sent, int | None]] = []
        self._failed: list[Sent] = []
        self._deadline: float | None = None  # once it should end

    def run(self) -> None:
        self._insist(lambda: self._producer.init_transactions(CALL_S))
        pace = Pace(self._load)
        while not self._reporter.is_stopping:
            self._one(pace)
            self._number += 1
        self._reporter.tell()

    def _one(self, pace: Pace) -> None:
        self._open, self._failed = [], []
        self._producer.begin_transaction()
        try:
            self._send_all(pace)
        except KafkaException:  # The next incarnation goes on; what this one sent must not be forgotten.
            give_up(self._producer)
            self._note("failed")
            raise
        self._end()

    def _send_all(self, pace: Pace) -> None:
        sent = 0
        while sent < self._load.transactional and not self._reporter.is_stopping:
            for _ in range(min(pace.due(), self._load.transactional - sent)):
                if not self._sender.send(self._delivered, self._number):
                    break
                pace.sent()
                sent += 1
            self._producer.poll(TICK_S)
            self._reporter.tell()

    def _end(self) -> None:
        try:
            self._insist(self._commit)
        except KafkaException as error:
            cause = error.args[0]
            if isinstance(cause, KafkaError) and cause.txn_requires_abort():
                self._abort()
            else:
                self._note("failed")  # no one knows: it may be committed
                raise
            return
        self._note("acknowledged")

    def _commit(self) -> None:
        self._producer.flush(CALL_S)  # so that every record's fate is known before that of the transaction
        self._producer.commit_transaction(CALL_S)

    def _abort(self) -> None:
        try:
            self._insist(lambda: self._producer.abort_transaction(CALL_S))
        except KafkaException:
            self._note("failed")
            raise
        self._note("aborted")

    def _note(self, kind: str) -> None:
        """All records of the transaction share its fate; what never arrived has failed in any case."""
        self._producer.poll(0)
        now = now_us()
        for sent, offset in self._open:
            self._sender.note(kind, sent, offset, now)
            if kind == "acknowledged":
                self._reporter.note(sent.partition, offset)
            else:
                self._reporter.failed += 1
        for sent in self._failed:
            self._sender.note("aborted" if kind == "aborted" else "failed", sent, None, now)
            self._reporter.failed += 1

    def _delivered(self, error: KafkaError | None, message: Message, sent: Sent) -> None:
        if error is None:
            self._open.append((sent, message.offset()))
        else:
            self._failed.append(sent)

    def _insist(self, call: Callable[[], object]) -> None:
        """As long as the client says that trying again may help."""
        while True:
            try:
                call()
                return
            except KafkaException as error:
                cause = error.args[0]
                if not (isinstance(cause, KafkaError) and cause.retriable()) or self._is_late():
                    raise
            self._reporter.tell()

    def _is_late(self) -> bool:
        if not self._reporter.is_stopping:
            return False
        self._deadline = self._deadline or time.monotonic() + END_S
        return time.monotonic() > self._deadline


def transact(job: Job, load: LoadSpec, history: HistoryWriter, reporter: Reporter) -> None:
    Transactions(job, load, history, reporter).run()
