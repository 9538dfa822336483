"""Steady load on a replicated topic while things break, and the account of it afterwards.

Two confluent-kafka producers with acks=all, one idempotent and one plain, write numbered records to every
partition; a consumer reads along from the start. Each acknowledgement is remembered with its place and time,
so that the end can be judged: what was acknowledged is where it was said to be, once and in order.

``TIDELOG_TEST_HISTORY``, a directory, makes rounds of faults leave their events there, for ``tidelog pipeline
indicators``.
"""

import os
import re
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.lab.history import HistoryWriter, now_us

from .calls import eventually

FLUSH_TIMEOUT_S = 120.0
ADMIN_TIMEOUT_S = 60.0
PAUSE_S = 0.004  # between two records of one partition
# What no server can shorten is shortened here. By default librdkafka waits 60 s for a peer that was frozen or
# cut off and so never closed its connection, and up to 10 s before it tries a broker again that did not
# answer lately, which in a series of faults may be the next leader.
CLIENT_SETTINGS: dict[str, Any] = {"socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 500, "log_level": 2}


class Ack(NamedTuple):
    """One acknowledged record."""

    number: int
    offset: int | None  # None: the broker only said that it has the record already
    at: float  # seconds of the steady clock


def create_topic(bootstrap: str, name: str, partitions: int, replicas: int = 3, **configs: object) -> None:
    """Config names are written with underscores for dots."""
    wanted = {key.replace("_", "."): str(value) for key, value in configs.items()}
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=wanted)
    admin = admin_client(bootstrap)  # It must live until the answer is there.
    admin.create_topics([topic])[name].result(ADMIN_TIMEOUT_S)


def admin_client(bootstrap: str) -> AdminClient:
    """One that waits for answers as long as a busy machine may need: a topic whose creation timed out may be
    there all the same, and cannot be created again.
    """
    return AdminClient({"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 2})


class Writer(threading.Thread):
    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        name: str,
        idempotent: bool,
        history: HistoryWriter | None = None,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._history = history
        settings = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": idempotent,
            "linger.ms": 1,
            **CLIENT_SETTINGS,
        }
        self._producer = confluent_kafka.Producer(settings)
        self._topic = topic
        self.sent_at: list[list[float]] = [[] for _ in range(partitions)]  # by partition and number
        self.acks: list[list[Ack]] = [[] for _ in range(partitions)]
        self.failures: list[str] = []
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.is_set():
            for partition in range(len(self.sent_at)):
                self._send(partition)
            self._pause()
        if left := self._producer.flush(FLUSH_TIMEOUT_S):
            self.failures.append(f"{left} records were neither acknowledged nor refused")

    def _pause(self) -> None:
        """A call of poll() ends with the first acknowledgement, so one call would be no pause."""
        end = time.monotonic() + PAUSE_S
        while (left := end - time.monotonic()) > 0:
            self._producer.poll(left)

    def finish(self) -> None:
        self._ending.set()
        self.join(FLUSH_TIMEOUT_S + 10)
        assert not self.is_alive(), f"{self.name} does not end"
        assert not self.failures, f"{self.name}: {len(self.failures)} failures, first: {self.failures[0]}"

    def _send(self, partition: int) -> None:
        number = len(self.sent_at[partition])
        try:
            self._producer.produce(
                self._topic,
                value_of(self.name, number),
                partition=partition,
                on_delivery=lambda error, message: self._delivered(partition, number, error, message),
            )
        except BufferError:  # everything waits for a leader: so do we
            return
        self.sent_at[partition].append(time.monotonic())

    def _delivered(self, partition: int, number: int, error: Any, message: Any) -> None:
        at = time.monotonic()
        if error is not None:
            self.failures.append(f"{self.name}/{number} to partition {partition}: {error}")
        else:
            self.acks[partition].append(Ack(number, message.offset(), at))
        if self._history is not None:
            answered_us = now_us()
            self._history.add(
                "acknowledged" if error is None else "failed", answered_us, producer=self.name,
                sequence=number, partition=partition, offset=None if error else message.offset(),
                sent_us=answered_us - int((at - self.sent_at[partition][number]) * 1e6),
                bytes=len(value_of(self.name, number)),
            )  # fmt: skip

    def wrote_since(self, moment: float) -> bool:
        """Whether every partition acknowledged something that was sent after this moment."""
        return all(
            acks and sent[acks[-1].number] > moment
            for acks, sent in zip(self.acks, self.sent_at, strict=True)
        )

    def longest_gap_s(self, since: float) -> float:
        """The longest time without an acknowledgement on any one partition."""
        longest = 0.0
        for acks in self.acks:
            times = [ack.at for ack in acks.copy()]
            late = [n for n, at in enumerate(times) if at >= since and n > 0]
            longest = max([longest, *(times[n] - times[n - 1] for n in late)])
        return longest


NOTHING = b""  # at the offset of a control record, which consumers never see


class Reader(threading.Thread):
    """Reads every partition from the start and expects each offset once, in order; with ``gaps`` some may be
    those of control records.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        gaps: bool = False,
        history: HistoryWriter | None = None,
    ) -> None:
        super().__init__(name="reader", daemon=True)
        self._history = history
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **CLIENT_SETTINGS,
        }
        self._consumer = confluent_kafka.Consumer(settings)
        self._consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(partitions)])
        self.values: list[list[bytes]] = [[] for _ in range(partitions)]  # the index is the offset
        self._gaps = gaps
        self.failures: list[str] = []
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.is_set() and not self.failures:
            for message in self._consumer.consume(1000, 0.1):
                self._read(message)
        self._consumer.close()

    def _read(self, message: Any) -> None:
        error = message.error()
        if error is not None:
            if error.fatal() or error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                self.failures.append(str(error))
            return
        values = self.values[message.partition()]
        if self._gaps:
            values += [NOTHING] * (message.offset() - len(values))
        if message.offset() != len(values):
            self.failures.append(
                f"partition {message.partition()}: offset {message.offset()} came where {len(values)} was due"
            )
        values.append(message.value())
        if self._history is not None:
            writer, number, _ = message.value().split(b"/", 2)
            self._history.add(
                "received", now_us(), producer=writer.decode(), sequence=int(number),
                partition=message.partition(), offset=message.offset(),
            )  # fmt: skip

    def finish(self, ends: list[int]) -> None:
        """Stop once it has read so far in every partition."""

        def has_read_all() -> bool:
            return bool(self.failures) or all(
                len(values) >= end for values, end in zip(self.values, ends, strict=True)
            )

        try:
            eventually(has_read_all, f"the reader reads up to {ends}")
        finally:
            self._ending.set()
            self.join(30)
        assert not self.failures, self.failures[0]


class Load:
    """Writers and reader together; call ``finish`` when all faults are over, then ``check``. With ``mode`` it
    leaves a history, if the tests are to leave one.
    """

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, *, gaps: bool = False, mode: str | None = None
    ) -> None:
        self._partitions = partitions
        self._history = history_of(mode) if mode is not None else None
        self.writers = [
            Writer(bootstrap, topic, partitions, "idempotent", True, self._history),
            Writer(bootstrap, topic, partitions, "plain", False, self._history),
        ]
        self.reader = Reader(bootstrap, topic, partitions, gaps=gaps, history=self._history)

    def struck(self, name: str) -> None:
        """For the history: something is broken now."""
        if self._history is not None:
            self._history.fault(name)

    def healed(self, name: str) -> None:
        if self._history is not None:
            self._history.healed(name)

    def start(self) -> None:
        self.reader.start()
        for writer in self.writers:
            writer.start()
        self.await_writes(time.monotonic())

    def await_writes(self, since: float, timeout_s: float = 60.0) -> None:
        """Until each writer had something acknowledged on every partition that it sent after ``since``."""

        def wrote() -> bool:
            for writer in self.writers:
                assert not writer.failures, writer.failures[0]
            assert not self.reader.failures, self.reader.failures[0]
            return all(writer.wrote_since(since) for writer in self.writers)

        eventually(wrote, "writes are acknowledged again", timeout_s)

    def longest_gap_s(self, since: float) -> float:
        return max(writer.longest_gap_s(since) for writer in self.writers)

    def finish(self) -> None:
        for writer in self.writers:
            writer.finish()
        ends = [
            max(ack.offset or 0 for writer in self.writers for ack in writer.acks[partition]) + 1
            for partition in range(self._partitions)
        ]
        self.reader.finish(ends)
        if self._history is not None:
            self._history.close()

    def check(self) -> str:
        """Assert that nothing acknowledged was lost, changed its place or its order; a summary in words."""
        repeated = 0
        for partition, values in enumerate(self.reader.values):
            self._check_places(partition, values)
            numbers = _numbers_by_writer(values)
            idempotent = numbers["idempotent"]
            assert idempotent == sorted(set(idempotent)), f"partition {partition}: repeated or out of order"
            repeated += len(numbers["plain"]) - len(set(numbers["plain"]))
        acknowledged = sum(len(acks) for writer in self.writers for acks in writer.acks)
        return f"{acknowledged} acknowledged records, {repeated} written twice by retries without idempotence"

    def _check_places(self, partition: int, values: list[bytes]) -> None:
        places: dict[int, bytes] = {}
        there = set(values)
        for writer in self.writers:
            for ack in writer.acks[partition]:
                value = value_of(writer.name, ack.number)
                if ack.offset is None:
                    assert value in there, f"{value!r} was acknowledged and is not there"
                    continue
                assert ack.offset not in places, f"offset {ack.offset} was given out twice"
                places[ack.offset] = value
                assert values[ack.offset] == value, f"another record than {value!r} is at {ack.offset}"


def history_of(mode: str) -> HistoryWriter | None:
    """A file for each test and mode; None unless histories are asked for."""
    directory = os.environ.get("TIDELOG_TEST_HISTORY")
    if directory is None:
        return None
    test = os.environ.get("PYTEST_CURRENT_TEST", "test").partition(" ")[0].rpartition("/")[2]
    file = re.sub(r"[^a-z0-9]+", "-", f"{test} {mode}".lower())
    Path(directory).mkdir(parents=True, exist_ok=True)
    return HistoryWriter(Path(directory) / f"{file}.jsonl", run=test, mode=mode)


def value_of(writer: str, number: int) -> bytes:
    """Sizes vary, so that faults fall into writes of every length."""
    return f"{writer}/{number}/".encode() + b"x" * (number * 7919 % 1500)


def _numbers_by_writer(values: list[bytes]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for value in filter(None, values):
        writer, number, _ = value.split(b"/", 2)
        numbers[writer.decode()].append(int(number))
    return numbers
