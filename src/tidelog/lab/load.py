"""A steady trickle of numbered acks=all writes to every partition of a topic, and an account of it.

Runs in a thread, while faults are injected. Everything is librdkafka's default but what
the caller asks for; ``linger.ms`` is, too, so that a write waits up to 5 ms for others.

With a history every acknowledgement and failure becomes an event of it, and :meth:`SteadyLoad.read_back`, to
be called when all faults are over, adds what is there: everything from where the topic ended before the load.
"""

import itertools
import json
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tidelog.lab.account import Account, Verdict, together
from tidelog.lab.history import HistoryWriter, now_us
from tidelog.lab.read_back import LoadFailed, end_offsets, read_back

__all__ = ["LoadFailed", "SteadyLoad", "record_of", "value_of"]

PAUSE_S = 0.005  # between two writes to one partition
VALUE_BYTES = 100
FLUSH_TIMEOUT_S = 120.0
READ_TIMEOUT_S = 30.0  # without anything new


def value_of(producer: str, sequence: int, size: int = VALUE_BYTES) -> bytes:
    """A value that says which record it is; longer than ``size`` where the name alone is."""
    return f"{producer}/{sequence}/".encode().ljust(size, b"x")


def record_of(value: bytes | None) -> tuple[str, int] | None:
    """Producer and sequence; None if it is not one of ours, to the byte: a damaged record is not there."""
    found = value or b""
    parts = found.rsplit(b"/", 2)
    if len(parts) != 3 or not parts[1].isdigit():
        return None
    producer, sequence = parts[0].decode(errors="replace"), int(parts[1])
    return (producer, sequence) if found == value_of(producer, sequence, len(found)) else None


class _Partition:
    """What became of the writes to one partition."""

    def __init__(self, start_offset: int, account: Account | None) -> None:
        self.start_offset = start_offset  # where the topic ended before the load
        self.account = account
        self.sequence = 0  # of the next write
        self.acked_at = array("d")  # seconds of the steady clock
        self.last_sent_at = 0.0  # of the write that was acknowledged last
        self.acked_end_offset = 0  # exclusive

    def acknowledged(self, sequence: int, sent_at: float, offset: int | None) -> None:
        self.acked_at.append(time.monotonic())
        self.last_sent_at = sent_at
        if self.account is not None:
            self.account.acknowledged(sequence, offset)
        self.acked_end_offset = max(self.acked_end_offset, (offset or 0) + 1)


class SteadyLoad:
    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        settings: Mapping[str, Any] | None = None,
        *,
        history: HistoryWriter | None = None,
        name: str = "load",
        accounts: bool = False,
        pause_s: float = PAUSE_S,
        on_acknowledged: Callable[[int, int, float, int | None], None] | None = None,
    ) -> None:
        """``name`` is the producer's in the history: another one for each load on the same topic. With
        ``accounts`` it can tell in the end what became of every record: see :meth:`verdict`.
        ``on_acknowledged`` is told partition, sequence, when the record was sent (seconds of the steady
        clock) and its offset, in the load's thread.
        """
        self._bootstrap = bootstrap
        self._topic = topic
        self._security = _of_security(settings or {})
        self._name = name
        self._history = history
        self._on_acknowledged = on_acknowledged
        self.failed: list[str] = []
        self._retries: dict[str, int] = {}  # by broker connection, as the client counts them
        self.connections = 0  # with brokers, as of the client's last figures
        common = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "log_level": 2,
            "statistics.interval.ms": 200,
            "stats_cb": self._statistics,
        }
        self._producer = Producer(common | dict(settings or {}))
        self._pause_s = pause_s
        reads_back = history is not None or accounts
        starts = [0] * partitions
        if reads_back:
            starts = end_offsets(bootstrap, topic, partitions, READ_TIMEOUT_S, self._security)
        self._partitions = [
            _Partition(start, Account(f"{topic}-{number}") if accounts else None)
            for number, start in enumerate(starts)
        ]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load on {topic}", daemon=True)
        self._error: OSError | None = None  # of the history

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Once everything that was sent is acknowledged or has failed."""
        self._stopping.set()
        self._thread.join(FLUSH_TIMEOUT_S + 60)
        self.check()

    @property
    def sent(self) -> int:
        """Records that were handed to the client."""
        return sum(partition.sequence for partition in self._partitions)

    @property
    def start_offsets(self) -> list[int]:
        """Where each partition ended before the load; zeros without history and accounts."""
        return [partition.start_offset for partition in self._partitions]

    @property
    def acknowledged(self) -> int:
        return sum(len(partition.acked_at) for partition in self._partitions)

    @property
    def silent_s(self) -> float:
        """How long the partition that is worst off has acknowledged nothing."""
        if not all(partition.acked_at for partition in self._partitions):
            return 0.0
        return time.monotonic() - min(partition.acked_at[-1] for partition in self._partitions)

    @property
    def retries(self) -> int:
        """Requests that the client sent again, whatever the reason."""
        return sum(self._retries.values())

    def wrote_since(self, moment: float) -> bool:
        """Whether every partition acknowledged a write that was sent after this moment of the steady
        clock.
        """
        if not self._thread.is_alive():
            self.check()
            raise LoadFailed("the load has ended")
        return all(partition.last_sent_at > moment for partition in self._partitions)

    def longest_gap_s(self, since: float) -> float:
        """The longest time that one partition acknowledged nothing, as far as it ended later."""
        longest = 0.0
        for partition in self._partitions:
            acked_at = partition.acked_at
            # From the last one before on: in a long run there are many, and they are in order.
            first = max(bisect_right(acked_at, since) - 1, 0)
            for before, after in itertools.pairwise(acked_at[first:]):
                longest = max(longest, after - before)
        return longest

    def check(self) -> None:
        """OSError if the history has a hole."""
        if self._error is not None:
            raise self._error

    def read_back(self, timeout_s: float = READ_TIMEOUT_S) -> int:
        """Read what is there and add it to the history; the number of records.

        Ends where each partition ends, and not before the last acknowledged record unless it does not turn up
        within the timeout: then it is lost, as the history will show.
        """
        if self._history is None:
            raise LoadFailed("there is no history to read back into")
        history = self._history

        def received(message: Message) -> None:
            record = record_of(message.value())
            if record is not None:
                producer, sequence = record
                history.add(
                    "received", now_us(), producer=producer, sequence=sequence,
                    partition=message.partition(), offset=message.offset(),
                )  # fmt: skip

        return self._read(received, timeout_s)

    def verdict(self, timeout_s: float = READ_TIMEOUT_S) -> Verdict:
        """Read what is there, into the history, too, and compare it with what was acknowledged; once, after
        :meth:`stop`.
        """

        def received(message: Message) -> None:
            record = record_of(message.value())
            number, offset = message.partition() or 0, message.offset() or 0
            account = self._partitions[number].account
            if record is None or account is None or record[0] != self._name:
                return
            account.received(record[1], offset)
            if self._history is not None:
                self._history.add(
                    "received", now_us(), producer=self._name, sequence=record[1], partition=number,
                    offset=offset,
                )  # fmt: skip

        self._read(received, timeout_s)
        return together(partition.account.verdict() for partition in self._partitions if partition.account)

    def _read(self, received: Callable[[Message], None], timeout_s: float) -> int:
        numbered = dict(enumerate(self._partitions))
        return read_back(
            self._bootstrap,
            self._topic,
            {number: partition.start_offset for number, partition in numbered.items()},
            {number: partition.acked_end_offset for number, partition in numbered.items()},
            received,
            timeout_s=timeout_s,
            security=self._security,
        )

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                due = time.monotonic() + self._pause_s
                for number in range(len(self._partitions)):
                    self._write(number)
                while (left := due - time.monotonic()) > 0:
                    self._producer.poll(left)
            self._producer.flush(FLUSH_TIMEOUT_S)
        except OSError as error:
            self._error = error

    def _write(self, number: int) -> None:
        partition = self._partitions[number]
        sequence = partition.sequence
        value = value_of(self._name, sequence)
        sent_at, sent_us = time.monotonic(), now_us()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                partition.acknowledged(sequence, sent_at, message.offset())
                if self._on_acknowledged is not None:
                    self._on_acknowledged(number, sequence, sent_at, message.offset())
            else:
                self.failed.append(str(error))
            if self._history is not None:
                self._history.add(
                    "acknowledged" if error is None else "failed", now_us(), producer=self._name,
                    sequence=sequence, partition=number, sent_us=sent_us, bytes=len(value),
                    offset=message.offset() if error is None else None,
                )  # fmt: skip

        try:
            self._producer.produce(self._topic, value, partition=number, on_delivery=delivered)
            partition.sequence += 1
        except BufferError:  # a long fault: what is queued already tells when it ends
            self._producer.poll(0.01)

    def _statistics(self, text: str) -> None:
        brokers = json.loads(text)["brokers"]
        for name, broker in brokers.items():
            self._retries[name] = broker["txretries"]
        self.connections = sum(
            broker["state"] == "UP" and broker["nodeid"] >= 0 for broker in brokers.values()
        )


def _of_security(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a consumer needs, too, to reach the same brokers."""
    prefixes = ("security.", "ssl.", "sasl.", "oauth_cb")
    return {name: value for name, value in settings.items() if name.startswith(prefixes)}
