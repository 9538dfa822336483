"""One sensible request per API, good for every version of it, and what its answer must say."""

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import uuid4

from kio.schema.errors import ErrorCode

from . import calls
from .records import batch
from .wire import Wire

Values = dict[str, Any]


class Request(NamedTuple):
    values: Callable[[Wire, str, int], Values]  # (connection, topic, version) -> fields
    check: Callable[[Any, int], None]  # (answer, version)
    first_version: int = 0


def _no_errors(answer: Any, version: int) -> None:
    """No error code anywhere in the answer, however deep."""
    for code in _codes(answer):
        assert code is ErrorCode.none, (version, answer)


def _codes(entity: Any) -> list[ErrorCode]:
    if isinstance(entity, ErrorCode):
        return [entity]
    if isinstance(entity, tuple):
        return [code for each in entity for code in _codes(each)]
    names = getattr(entity, "__dataclass_fields__", ())
    return [code for name in names for code in _codes(getattr(entity, name))]


def _produce(wire: Wire, topic: str, version: int) -> Values:
    topic_id = calls.topic_id(wire, topic)
    return calls.produce_request(topic, bytes(batch(b"v")), 0, acks=1, topic_id=topic_id)


def _fetch(wire: Wire, topic: str, version: int) -> Values:
    topics = [
        {"topic": topic, "topic_id": calls.topic_id(wire, topic), "partitions": [calls.fetch_partition(0, 0)]}
    ]
    return calls.fetch_request(topics)


def _list_offsets(wire: Wire, topic: str, version: int) -> Values:
    part = {"partition_index": 0, "timestamp": calls.LATEST}
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": [part]}]}


def _metadata(wire: Wire, topic: str, version: int) -> Values:
    return {"topics": [{"name": topic}], "allow_auto_topic_creation": False}


def _api_versions(wire: Wire, topic: str, version: int) -> Values:
    return {"client_software_name": "test", "client_software_version": "1.0"}


def _create_topics(wire: Wire, topic: str, version: int) -> Values:
    new = {"name": f"v{version}-{uuid4().hex[:8]}", "num_partitions": 1, "replication_factor": 1}
    return {"topics": [new], "timeout": 30_000}


def _delete_topics(wire: Wire, topic: str, version: int) -> Values:
    doomed = f"doomed-{uuid4().hex[:8]}"
    calls.create_topic(wire, doomed)
    return {"topic_names": [doomed], "topics": [{"name": doomed}], "timeout": 30_000}


def _delete_records(wire: Wire, topic: str, version: int) -> Values:
    part = {"partition_index": 0, "offset": 1}
    return {"topics": [{"name": topic, "partitions": [part]}], "timeout": 30_000}


def _init_producer_id(wire: Wire, topic: str, version: int) -> Values:
    return {"transactional_id": None, "transaction_timeout": 60_000}


def _describe_producers(wire: Wire, topic: str, version: int) -> Values:
    return {"topics": [{"name": topic, "partition_indexes": [0]}]}


def _offset_for_leader_epoch(wire: Wire, topic: str, version: int) -> Values:
    part = {"partition": 0, "leader_epoch": 0}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [part]}]}


def _describe_configs(wire: Wire, topic: str, version: int) -> Values:
    return {"resources": [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}]}


def _alter_configs(wire: Wire, topic: str, version: int) -> Values:
    configs = [{"name": "retention.ms", "config_operation": 0, "value": "99999999"}]
    return {"resources": [{"resource_type": 2, "resource_name": topic, "configs": configs}]}


def _describe_log_dirs(wire: Wire, topic: str, version: int) -> Values:
    return {"topics": [{"topic": topic, "partitions": [0]}]}


def _create_partitions(wire: Wire, topic: str, version: int) -> Values:
    count = len(calls.metadata(wire, topic).partitions) + 1
    return {"topics": [{"name": topic, "count": count, "assignments": None}], "timeout": 30_000}


def _describe_cluster(wire: Wire, topic: str, version: int) -> Values:
    return {"endpoint_type": 1}


def _describe_topic_partitions(wire: Wire, topic: str, version: int) -> Values:
    return {"topics": [{"name": topic}], "response_partition_limit": 100}


ALL = {
    "produce": Request(_produce, _no_errors, first_version=3),
    "fetch": Request(_fetch, _no_errors),
    "list_offsets": Request(_list_offsets, _no_errors),
    "metadata": Request(_metadata, _no_errors),
    "api_versions": Request(_api_versions, _no_errors),
    "create_topics": Request(_create_topics, _no_errors),
    "delete_topics": Request(_delete_topics, _no_errors),
    "delete_records": Request(_delete_records, _no_errors),
    "offset_for_leader_epoch": Request(_offset_for_leader_epoch, _no_errors),
    "describe_configs": Request(_describe_configs, _no_errors),
    "alter_configs": Request(_alter_configs, _no_errors),
    "incremental_alter_configs": Request(_alter_configs, _no_errors),
    "describe_log_dirs": Request(_describe_log_dirs, _no_errors),
    "create_partitions": Request(_create_partitions, _no_errors),
    "describe_cluster": Request(_describe_cluster, _no_errors),
    "init_producer_id": Request(_init_producer_id, _no_errors),
    "describe_producers": Request(_describe_producers, _no_errors),
    "describe_topic_partitions": Request(_describe_topic_partitions, _no_errors),
}
