"""A producer whose client is made up."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidelog.lab.experiment.model import LoadSpec
from tidelog.lab.workload import producing
from tidelog.lab.workload.jobs import PRODUCE, Job
from tidelog.lab.workload.progress import Reporter

JOB = Job(
    role=PRODUCE, name="producer-1-1", bootstrap="b:1", topic="t", partitions=1, run="r", mode="isr",
    clock_offset_ns=0, directory="",
)  # fmt: skip


class Message:
    def offset(self) -> int:
        return 5


class Client:
    """The first one takes two records, answers none, and fails for good then."""

    made = 0

    def __init__(self, settings: dict[str, Any]) -> None:
        Client.made += 1
        self._is_good = Client.made > 1
        self._waiting: list[Any] = []

    def produce(
        self, topic: str, value: bytes, key: bytes | None, *, partition: int, on_delivery: Any
    ) -> None:
        if not self._is_good and len(self._waiting) == 2:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        self._waiting.append(on_delivery)

    def poll(self, timeout: float) -> None:
        if self._is_good:
            self._answer(None)

    def purge(self) -> None:
        self._answer(KafkaError(KafkaError._PURGE_QUEUE))

    def flush(self, timeout: float) -> int:
        return len(self._waiting)

    def _answer(self, error: KafkaError | None) -> None:
        for done in self._waiting:
            done(error, Message())
        self._waiting.clear()


class History:
    def __init__(self, stop: Any) -> None:
        self.noted: list[tuple[str, int]] = []
        self._stop = stop

    def add(self, kind: str, time_us: int, **said: Any) -> None:
        self.noted.append((kind, said["sequence"]))
        if kind == "acknowledged":
            self._stop()


def test_a_client_that_fails_for_good_leaves_no_write_without_an_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producing, "Producer", Client)
    monkeypatch.setattr(Client, "made", 0)
    monkeypatch.setattr(Reporter, "_await_stop", lambda self: None)
    monkeypatch.setattr(Reporter, "tell", lambda self, *, is_done=False: None)
    reporter = Reporter(1)
    history = History(reporter._stopping.set)
    producing.produce(JOB, LoadSpec(topic="t", rate=0), history, reporter)  # type: ignore[arg-type]
    assert Client.made == 2
    assert history.noted[:3] == [("failed", 0), ("failed", 1), ("acknowledged", 2)]
