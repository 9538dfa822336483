"""Creates a topic: CreateTopics 4, which every Kafka since 2.4 and Kafka 4 serve.

With TLS, SASL and the addresses of the settings, unlike a second client library beside this one.
"""

import struct
from collections.abc import Mapping

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError, Refused, is_retriable
from tidelog.client.reader import Reader, string
from tidelog.errors import ErrorCode

CREATE_TOPICS_VERSION = 4
DEFAULT = -1  # as a number of partitions or replicas: the cluster's default

_TIMEOUT_MS = 30_000
_TOPIC = struct.Struct(">ihi")
_INT32 = struct.Struct(">i")


class TopicRefused(ClientError):
    """The cluster does not create the topic; the message says why."""


def create_topic(
    cluster: Cluster,
    topic: str,
    *,
    partitions: int = DEFAULT,
    replicas: int = DEFAULT,
    settings: Mapping[str, str] | None = None,
) -> bool:
    """Create the topic; False if there is one of that name already."""
    patience = cluster.patience()
    body = create_topics_request(topic, partitions, replicas, settings or {})
    while True:
        response = cluster.ask(Api.CREATE_TOPICS, CREATE_TOPICS_VERSION, body, patience)
        error, reason = created(response)
        if error == ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        if error and is_retriable(error):
            patience.pause(Refused(f"The topic {topic} cannot be created", error))
            continue
        if error:
            refusal = str(Refused(f"The topic {topic} cannot be created", error))
            raise TopicRefused(f"{refusal}, {reason.rstrip('.')}." if reason else f"{refusal}.")
        return True


def create_topics_request(topic: str, partitions: int, replicas: int, settings: Mapping[str, str]) -> bytes:
    body = _INT32.pack(1) + string(topic) + _TOPIC.pack(partitions, replicas, 0) + _INT32.pack(len(settings))
    for name, value in settings.items():
        body += string(name) + string(value)
    return body + _INT32.pack(_TIMEOUT_MS) + b"\x00"  # not only a check


def created(body: memoryview) -> tuple[int, str]:
    """The error for the topic, and the broker's words about it."""
    reader = Reader(body)
    reader.int32()  # throttle time
    if reader.int32() != 1:
        raise ConnectionError("the broker's response is about no topic")
    reader.string()
    return reader.int16(), reader.string()
