"""What a broker says of its replicas."""

from types import SimpleNamespace
from typing import Any, cast

from tidelog.errors import ErrorCode
from tidelog.page.asking.link import Link
from tidelog.page.asking.replicas import replicas
from tidelog.page.facts import Replicas


def told(error_code: int, *directories: Any) -> Replicas:
    answer = SimpleNamespace(error_code=error_code, results=list(directories))
    return replicas(cast(Link, SimpleNamespace(ask=lambda api, body: answer)))


def directory(error_code: int = 0) -> Any:
    partition = SimpleNamespace(partition_index=0, partition_size=7, offset_lag=2)
    topic = SimpleNamespace(name="orders", partitions=[partition])
    return SimpleNamespace(error_code=error_code, topics=[topic], total_bytes=100, usable_bytes=40)


def test_a_volume_and_a_log_that_fails() -> None:
    assert told(0, directory()) == Replicas(100, 40, of_topics={"orders": {0: (7, 2)}})
    assert told(0, directory(ErrorCode.KAFKA_STORAGE_ERROR)).failed


def test_a_refusal_is_no_failing_disk() -> None:
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for found in (told(refused), told(0, directory(refused))):
        assert (found.refused, found.failed, found.size_bytes) == (True, False, -1)
