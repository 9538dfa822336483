"""Batch jobs that write exactly once, as restores do, and the time that brokers allow to a transaction.

The brokers' limit is a second here and 15 minutes by default. Tasks are played without Spark.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.spark.writing import writer_settings
from tidelog.spark.writing.coordinator import Coordinators
from tidelog.spark.writing.task_transaction import TimedOut
from tidelog.spark.writing.transactions import ONGOING, TransactionLost, Transactions
from tidelog.spark.writing.writers import BatchWriter
from tidelog.testing import running_broker

from .arrived import consume, held_back
from .conftest import CreateTopic
from .processes import wait_until

LIMIT_MS = 1000


class Task:
    """What Spark tells a task about itself."""

    def __init__(self, number: int) -> None:
        self._number = number

    def partitionId(self) -> int:
        return self._number

    def attemptNumber(self) -> int:
        return 0


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with a small limit."""
    directory: Path = tmp_path_factory.mktemp("limited")
    with running_broker(directory, {"transaction.max.timeout.ms": LIMIT_MS}) as broker:
        yield broker.bootstrap


def job(bootstrap: str, topic: str, **options: str) -> BatchWriter:
    given = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "deliveryGuarantee": "exactly-once"}
    given |= {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    return BatchWriter(writer_settings(given, streaming=False))


def rows(*values: str) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.string())], names=["value"])


def wait_for_the_timeout(bootstrap: str) -> None:
    """Until the broker has aborted every open transaction."""
    settings = writer_settings({"kafka.bootstrap.servers": bootstrap}, streaming=False).client
    with Cluster(settings) as cluster:
        transactions = Transactions(cluster, Coordinators(cluster))
        wait_until(lambda: not transactions.listed("tidelog-write-", ONGOING))


def as_task(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr("tidelog.spark.writing.writers.TaskContext.get", lambda: Task(number))


def test_a_task_that_takes_too_long_ends_with_one_sentence(limited: str, create_topic: CreateTopic) -> None:
    topic = create_topic(at=limited)
    restore = job(limited, topic, batch_size="1024")

    def slow() -> Iterator[pa.RecordBatch]:
        yield rows(*(f"{number:09}" for number in range(1000)))
        wait_for_the_timeout(limited)
        time.sleep(LIMIT_MS / 1000)  # by the task's own clock, too
        yield rows("last")
        raise AssertionError("it goes on although its transaction was aborted")

    with pytest.raises(TimedOut, match=r"after 1 s \(kafka.transaction.timeout.ms\).* write in parts"):
        restore.write(slow())
    with pytest.raises(TimedOut, match="write in parts"):
        restore.write(iter([rows("the second attempt, which Spark starts")]))
    restore.abort([None])
    assert held_back(limited, topic) == []
    assert consume(limited, topic) == []


def test_tasks_that_come_after_the_timeout_of_the_first_write_nothing(
    limited: str, create_topic: CreateTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(at=limited)
    restore = job(limited, topic)
    as_task(monkeypatch, 0)
    first = restore.write(iter([rows("a")]))
    wait_for_the_timeout(limited)
    as_task(monkeypatch, 1)
    wait_until(lambda: time.time() - restore._created_s > LIMIT_MS / 1000)
    with pytest.raises(TimedOut, match="write in parts"):
        restore.write(iter([rows("b")]))
    with pytest.raises(TransactionLost, match="no longer open"):
        restore.commit([first])


def test_the_brokers_limit_is_the_default_of_jobs_and_cannot_be_exceeded(
    limited: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(at=limited)
    settings = writer_settings({"kafka.bootstrap.servers": limited}, streaming=False)
    assert settings.transaction_timeout_ms is None
    with Cluster(settings.client) as cluster:
        assert Transactions(cluster, Coordinators(cluster)).timeout_ms_max() == LIMIT_MS
    with pytest.raises(ClientError, match="is 1001, which is more than the brokers allow"):
        job(limited, topic, transaction_timeout_ms="1001").write(iter([rows("b")]))
