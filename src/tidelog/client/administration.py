"""Changes of settings and moves of partitions: IncrementalAlterConfigs 0 and AlterPartitionReassignments 0.

Every Kafka since 2.4 and Kafka 4 serve them. Any broker takes them, and passes them on to the controller.
"""

import struct
from collections.abc import Callable, Mapping, Sequence

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError, Refused, is_retriable
from tidelog.client.messages import TopicPartition
from tidelog.client.reader import Reader, compact_string, string, uvarint

ALTER_CONFIGS_VERSION = 0
REASSIGNMENTS_VERSION = 0
OF_TOPIC, OF_BROKER = 2, 4

_SET, _DELETE = 0, 1
_TIMEOUT_MS = 30_000
_INT32 = struct.Struct(">i")
_NULL = b"\xff\xff"  # instead of a string


class ChangeRefused(ClientError):
    """The cluster does not make the change; the message says why."""


def alter_settings(cluster: Cluster, kind: int, name: str, values: Mapping[str, str | None]) -> None:
    """Set settings of a topic or broker; None: back to what holds without it."""
    noun = "topic" if kind == OF_TOPIC else "broker"
    body = alter_configs_request(kind, name, values)
    what = f"The settings of {noun} {name} cannot be changed"
    _change(cluster, Api.INCREMENTAL_ALTER_CONFIGS, ALTER_CONFIGS_VERSION, body, altered, what)


def reassign(cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Begin to move partitions to these replicas. The moves go on after it has returned."""
    body = reassignments_request(targets)
    what = "The partitions cannot be moved"
    _change(cluster, Api.ALTER_PARTITION_REASSIGNMENTS, REASSIGNMENTS_VERSION, body, reassigned, what)


def _change(
    cluster: Cluster,
    api: Api,
    version: int,
    body: bytes,
    decode: Callable[[memoryview], tuple[int, str]],
    what: str,
) -> None:
    patience = cluster.patience()
    while True:
        error, reason = decode(cluster.ask(api, version, body, patience))
        if not error:
            return
        refusal = str(Refused(what, error))
        if not is_retriable(error):
            raise ChangeRefused(f"{refusal}, {reason.rstrip('.')}." if reason else f"{refusal}.")
        patience.pause(refusal)


def alter_configs_request(kind: int, name: str, values: Mapping[str, str | None]) -> bytes:
    body = _INT32.pack(1) + bytes([kind]) + string(name) + _INT32.pack(len(values))
    for key, value in values.items():
        body += string(key) + bytes([_DELETE if value is None else _SET])
        body += _NULL if value is None else string(value)
    return body + b"\x00"  # not only a check


def altered(body: memoryview) -> tuple[int, str]:
    """The error, and the broker's words about it."""
    reader = Reader(body)
    reader.int32()  # throttle time
    if reader.int32() != 1:
        raise ConnectionError("the broker's response is about no resource")
    return reader.int16(), reader.string()


def reassignments_request(targets: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    topics: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    for (topic, partition), replicas in targets.items():
        moved = (
            _INT32.pack(partition)
            + uvarint(len(replicas) + 1)
            + b"".join(map(_INT32.pack, replicas))
            + b"\x00"
        )
        topics[topic] = topics.get(topic, b"") + moved
        counts[topic] = counts.get(topic, 0) + 1
    body = _INT32.pack(_TIMEOUT_MS) + uvarint(len(topics) + 1)
    for topic, moves in topics.items():
        body += compact_string(topic) + uvarint(counts[topic] + 1) + moves + b"\x00"
    return body + b"\x00"


def reassigned(body: memoryview) -> tuple[int, str]:
    """The first error, and the broker's words about it."""
    reader = Reader(body)
    reader.int32()  # throttle time
    found = [(reader.int16(), reader.compact_string())]
    for _ in range(reader.compact_count()):
        reader.compact_string()
        for _ in range(reader.compact_count()):
            reader.int32()
            found.append((reader.int16(), reader.compact_string()))
            reader.skip_tags()
        reader.skip_tags()
    return next((each for each in found if each[0]), (0, ""))
