"""A steady trickle of acks=all writes to every partition, and when each was acknowledged.

Runs in a thread of the bench itself, which strikes the brokers meanwhile. Everything is librdkafka's default
but what the caller asks for; ``linger.ms`` is, too, so that a write waits up to 5 ms for others.
"""

import itertools
import json
import threading
import time
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from bench.process import BenchError, wait_until

PAUSE_SECONDS = 0.005  # between two writes to one partition
VALUE = b"x" * 100


class SteadyLoad:
    def __init__(self, bootstrap: str, topic: str, partitions: int, settings: dict[str, Any]) -> None:
        self._topic = topic
        self._acks: list[list[tuple[float, float]]] = [[] for _ in range(partitions)]  # (when, when sent)
        self.failed: list[str] = []
        self._retries: dict[str, int] = {}  # by broker connection, as the client counts them
        common = {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "log_level": 2,
            "statistics.interval.ms": 200,
            "stats_cb": self._statistics,
        }
        self._producer = Producer(common | settings)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        self.wait_for_writes(time.monotonic(), 30)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(180)

    @property
    def retries(self) -> int:
        """Requests that the client sent again, whatever the reason."""
        return sum(self._retries.values())

    def wait_for_writes(self, since: float, seconds: float) -> None:
        """Until every partition acknowledged a write that was sent after ``since``."""

        def wrote() -> bool:
            if not self._thread.is_alive():
                raise BenchError("the load has ended")
            return all(acks and acks[-1][1] > since for acks in self._acks)

        wait_until(wrote, seconds, "writing again after the fault")

    def longest_gap(self, since: float) -> float:
        """The longest time in seconds that one partition acknowledged nothing, as far as it ended later."""
        longest = 0.0
        for acks in self._acks:
            times = [at for at, _ in acks.copy()]
            for before, after in itertools.pairwise(times):
                if after > since:
                    longest = max(longest, after - before)
        return longest

    def _run(self) -> None:
        while not self._stopping.is_set():
            due = time.monotonic() + PAUSE_SECONDS
            for partition in range(len(self._acks)):
                self._write(partition)
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)
        self._producer.flush(120)

    def _write(self, partition: int) -> None:
        sent = time.monotonic()

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self._acks[partition].append((time.monotonic(), sent))

        try:
            self._producer.produce(self._topic, VALUE, partition=partition, on_delivery=delivered)
        except BufferError:  # a long fault: what is queued already tells when it ends
            self._producer.poll(0.01)

    def _statistics(self, text: str) -> None:
        for name, broker in json.loads(text)["brokers"].items():
            self._retries[name] = broker["txretries"]
