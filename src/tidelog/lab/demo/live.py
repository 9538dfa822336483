"""The account of one topic while it is written to and read.

Owns the counting. A record is missing if it was acknowledged at an offset that the reader has passed without
seeing it. What is finally said comes from reading everything back at the end.
"""

import threading
from array import array
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tidelog.lab.history import HistoryWriter
from tidelog.lab.load import record_of

_NOT_YET = -1


class LiveAccount:
    """Of one producer in one partition. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._acknowledged = array("q")  # offset by sequence
        self._seen = array("q")
        self._unseen: dict[int, int] = {}  # sequence → offset
        self._position = 0
        self._last = _NOT_YET  # the highest sequence received so far
        self.duplicated = 0
        self.disordered = 0  # received after one that was sent later

    def acknowledged(self, sequence: int, offset: int) -> None:
        with self._lock:
            _put(self._acknowledged, sequence, offset)
            if self._at(self._seen, sequence) == _NOT_YET:
                self._unseen[sequence] = offset

    def received(self, sequence: int, offset: int) -> None:
        with self._lock:
            before = self._at(self._seen, sequence)
            if before not in (_NOT_YET, offset):
                self.duplicated += 1
            elif before == _NOT_YET and sequence < self._last:
                self.disordered += 1
            self._last = max(self._last, sequence)
            _put(self._seen, sequence, offset)
            self._unseen.pop(sequence, None)
            self._position = max(self._position, offset + 1)

    @property
    def missing(self) -> int:
        with self._lock:
            return sum(offset < self._position for offset in self._unseen.values())

    @staticmethod
    def _at(column: "array[int]", sequence: int) -> int:
        return column[sequence] if sequence < len(column) else _NOT_YET


def _put(column: "array[int]", sequence: int, value: int) -> None:
    if sequence >= len(column):
        column.extend([_NOT_YET] * (sequence + 1 - len(column)))
    column[sequence] = value


class LiveHistory(HistoryWriter):
    """A history that also counts at once."""

    def __init__(self, path: Path, run: str, mode: str, account: LiveAccount) -> None:
        super().__init__(path, run=run, mode=mode)
        self._account = account

    def add(self, kind: str, time_us: int, **said: Any) -> None:
        if kind == "acknowledged" and said.get("offset") is not None:
            self._account.acknowledged(said["sequence"], said["offset"])
        super().add(kind, time_us, **said)


class LiveReader:
    """Reads partition 0 of a topic in a thread."""

    def __init__(
        self,
        settings: dict[str, Any],
        topic: str,
        account: LiveAccount,
        *,
        start: int = 0,
        producer: str | None = None,
    ) -> None:
        """``producer``: only records of this one; None: of all."""
        self._account = account
        self._producer = producer
        self._consumer = Consumer(
            {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "earliest"} | settings
        )
        self._consumer.assign([TopicPartition(topic, 0, start)])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"reader of {topic}", daemon=True)
        self.count = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in self._consumer.consume(500, 0.1):
                error: KafkaError | None = message.error()
                record = record_of(message.value()) if error is None else None
                if record is not None and self._producer in (None, record[0]):
                    self.count += 1
                    self._account.received(record[1], message.offset() or 0)
