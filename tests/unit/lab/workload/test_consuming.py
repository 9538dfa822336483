"""A member of a group, with a client that is made up."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from tidelog.lab.experiment.model import ConsumerSpec
from tidelog.lab.workload import consuming
from tidelog.lab.workload.jobs import CONSUME, Job
from tidelog.lab.workload.progress import Reporter

JOB = Job(
    role=CONSUME, name="consumer-1-1", bootstrap="b:1", topic="t", partitions=1, run="r", mode="isr",
    clock_offset_ns=0, directory="",
)  # fmt: skip


class Client:
    def __init__(self, settings: dict[str, Any]) -> None:
        self.commits: list[int] = []

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self.commits.append(offsets[0].offset)


class History:
    def __init__(self) -> None:
        self.noted: list[tuple[str, int]] = []

    def add(self, kind: str, time_us: int, **said: Any) -> None:
        self.noted.append((kind, said["offset"]))


def test_one_commit_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A client that has to try again may send an older one after a newer one, and the cluster takes both."""
    monkeypatch.setattr(consuming, "Consumer", Client)
    monkeypatch.setattr(consuming, "COMMIT_EVERY_S", 0.0)
    monkeypatch.setattr(Reporter, "_await_stop", lambda self: None)
    history = History()
    member = consuming.Member(JOB, ConsumerSpec(topic="t"), history, Reporter(1))  # type: ignore[arg-type]
    client: Any = member._consumer
    for end in (10, 20, 30):
        member._positions[0] = end
        member._commit()
    assert client.commits == [10]
    member._committed(None, [TopicPartition("t", 0, 10)])
    member._commit()
    assert client.commits == [10, 30]
    member._committed(KafkaError(KafkaError._TIMED_OUT), [TopicPartition("t", 0, 30)])
    member._positions[0] = 40
    member._commit()
    assert client.commits == [10, 30, 40]
    assert history.noted == [("committed", 10)]
