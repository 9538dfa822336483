"""The requests tests send most, for one topic partition each, on top of :mod:`wire`."""

import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from .wire import Wire

EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -2, -1, -3, -4
PRODUCE_BY_ID = 13  # first versions that name topics by id instead of name
FETCH_BY_ID = 13


def create_topic(
    wire: Wire, name: str, partitions: int = 1, configs: Mapping[str, object] | None = None
) -> None:
    """Create and wait until the topic can be used. Config names are written with underscores for dots."""
    pairs = [{"name": key.replace("_", "."), "value": str(value)} for key, value in (configs or {}).items()]
    request = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": pairs}
    (result,) = wire.call("create_topics", 5, topics=[request], timeout=30_000).topics
    assert result.error_code is ErrorCode.none, result
    await_topic(wire, name, partitions)


def await_topic(wire: Wire, name: str, partitions: int = 1) -> None:
    """Wait until every partition can be written and read: Kafka names the leader a little before it leads."""

    def ready() -> bool:
        topic = metadata(wire, name)
        return (
            topic.error_code is ErrorCode.none
            and len(topic.partitions) == partitions
            and all(
                list_offset(wire, name, LATEST, partition=partition).error_code is ErrorCode.none
                for partition in range(partitions)
            )
        )

    eventually(ready, f"{name} has {partitions} partitions with leaders")


def await_deletion(wire: Wire, name: str) -> None:
    eventually(
        lambda: metadata(wire, name).error_code is ErrorCode.unknown_topic_or_partition, f"{name} is deleted"
    )


def metadata(wire: Wire, name: str) -> Any:
    """What the broker says about one topic; never creates it."""
    answer = wire.call("metadata", 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    return answer.topics[0]


def topic_id(wire: Wire, name: str) -> UUID:
    found = metadata(wire, name)
    assert found.error_code is ErrorCode.none, found
    return found.topic_id  # type: ignore[no-any-return]


def produce_request(topic: str, data: bytes | None, partition: int, acks: int, **more: Any) -> dict[str, Any]:
    """The fields of a Produce request; for the versions that want it, pass ``topic_id``."""
    part = {"index": partition, "records": data}
    by_topic = {"name": topic, "topic_id": more.pop("topic_id", None), "partition_data": [part]}
    return {"acks": acks, "timeout": 30_000, "topic_data": [by_topic], **more}


def produce(
    wire: Wire,
    topic: str,
    data: bytes | None,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = 12,
    **more: Any,
) -> Any:
    """Send one partition's batches and return the partition's part of the answer."""
    if version >= PRODUCE_BY_ID:
        more.setdefault("topic_id", topic_id(wire, topic))
    answer = wire.call("produce", version, **produce_request(topic, data, partition, acks, **more))
    return answer.responses[0].partition_responses[0]


def fetch_partition(partition: int, offset: int, **more: Any) -> dict[str, Any]:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}


def fetch_request(topics: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    limits = {"replica_id": -1, "max_wait": 500, "min_bytes": 1, "max_bytes": 1 << 25}
    return {**limits, "topics": topics, **more}


def fetch(
    wire: Wire,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    version: int = 12,
    partition_fields: Mapping[str, Any] | None = None,
    **more: Any,
) -> Any:
    """Fetch one partition and return the partition's part of the answer."""
    part = fetch_partition(partition, offset, **(partition_fields or {}))
    by_topic: dict[str, Any] = {"topic": topic, "partitions": [part]}
    if version >= FETCH_BY_ID:
        by_topic["topic_id"] = topic_id(wire, topic)
    answer = wire.call("fetch", version, **fetch_request([by_topic], **more))
    assert answer.responses, answer
    return answer.responses[0].partitions[0]


def list_offset(wire: Wire, topic: str, timestamp: int, *, partition: int = 0, version: int = 8) -> Any:
    """Look up one offset; ``timestamp`` may be one of the special ones above."""
    part = {"partition_index": partition, "timestamp": timestamp}
    topics = [{"name": topic, "partitions": [part]}]
    answer = wire.call("list_offsets", version, replica_id=-1, topics=topics)
    return answer.topics[0].partitions[0]


def end_offset(wire: Wire, topic: str, partition: int = 0) -> int:
    found = list_offset(wire, topic, LATEST, partition=partition)
    assert found.error_code is ErrorCode.none, found
    return found.offset  # type: ignore[no-any-return]


def start_offset(wire: Wire, topic: str, partition: int = 0) -> int:
    found = list_offset(wire, topic, EARLIEST, partition=partition)
    assert found.error_code is ErrorCode.none, found
    return found.offset  # type: ignore[no-any-return]


def eventually(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Wait until the condition holds; ``what`` is what the failure says never happened."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"never happened within {timeout_s:g} s: {what}"
        time.sleep(0.02)
