"""The settings of topics: DescribeConfigs 1, which every Kafka since 1.1 and Kafka 4 serve."""

import struct
from collections.abc import Iterable

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import Refused, is_retriable
from tidelog.client.reader import Reader, string

DESCRIBE_CONFIGS_VERSION = 1

_OF_TOPIC = 2
_INT32 = struct.Struct(">i")


def topic_setting(cluster: Cluster, topics: Iterable[str], name: str) -> dict[str, str]:
    """For each topic the value of one setting, its default included."""
    wanted = list(topics)
    body = describe_configs_request(wanted, name)
    patience = cluster.patience()
    while True:
        found = described(cluster.ask(Api.DESCRIBE_CONFIGS, DESCRIBE_CONFIGS_VERSION, body, patience))
        refused = {topic: code for topic, (code, _) in found.items() if code}
        if not refused:
            return {topic: values.get(name, "") for topic, (_, values) in found.items()}
        topic, code = next(iter(refused.items()))
        refusal = Refused(f"The settings of topic {topic} cannot be read", code)
        if not is_retriable(code):
            raise refusal
        patience.pause(refusal)


def describe_configs_request(topics: list[str], name: str) -> bytes:
    body = _INT32.pack(len(topics))
    for topic in topics:
        body += bytes([_OF_TOPIC]) + string(topic) + _INT32.pack(1) + string(name)
    return body + b"\x00"  # no synonyms


def described(body: memoryview) -> dict[str, tuple[int, dict[str, str]]]:
    """For each topic its error and the settings."""
    reader = Reader(body)
    reader.int32()  # throttle time
    found = {}
    for _ in range(reader.int32()):
        error = reader.int16()
        reader.string()  # its message
        reader.int8()  # the kind of resource
        topic = reader.string()
        found[topic] = (error, dict(_setting(reader) for _ in range(reader.int32())))
    return found


def _setting(reader: Reader) -> tuple[str, str]:
    name, value = reader.string(), reader.string()
    reader.int8()  # whether it can be changed
    reader.int8()  # where the value comes from
    reader.int8()  # whether it is secret
    for _ in range(max(reader.int32(), 0)):
        reader.string()
        reader.string()
        reader.int8()
    return name, value
