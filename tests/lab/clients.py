"""A client's view of a cluster: topics, writes and reads with confluent-kafka."""

import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.lab.faults.cluster import LabCluster

PATIENCE_S = 60.0
QUIET = {"log_level": 2, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}


def create_topic(cluster: LabCluster, name: str, replicas: int = 3, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.client_bootstrap, **QUIET})
    topic = NewTopic(
        name, 1, replicas, config={key.replace("_", "."): value for key, value in settings.items()}
    )
    admin.create_topics([topic])[name].result(PATIENCE_S)


def producer(cluster: LabCluster, **settings: Any) -> Producer:
    names = {key.replace("_", "."): value for key, value in settings.items()}
    return Producer({"bootstrap.servers": cluster.client_bootstrap, "acks": "all", **QUIET, **names})


def write(cluster: LabCluster, topic: str, *values: bytes, timeout_ms: int = 60_000) -> int:
    """Returns how many were acknowledged before the client gave up."""
    acknowledged: list[int] = []

    def delivered(error: object, message: object) -> None:
        if error is None:
            acknowledged.append(1)

    client = producer(cluster, delivery_timeout_ms=timeout_ms)
    for value in values:
        client.produce(topic, value, partition=0, on_delivery=delivered)
    client.flush(timeout_ms / 1000 + 10)
    return len(acknowledged)


def watermarks(consumer: Consumer, topic: str) -> tuple[int, int]:
    """As soon as the brokers know the topic, which a cluster that just started may not yet."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), 5)
            return start, end
        except KafkaException:
            if time.monotonic() > deadline:
                raise


def read(cluster: LabCluster, topic: str) -> list[bytes | None]:
    """Everything there, to the end. Some offsets have no record for clients: a new leader's first one in a
    quorum topic.
    """
    settings = {
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 50,
    }
    consumer = Consumer({"bootstrap.servers": cluster.client_bootstrap, **QUIET, **settings})
    try:
        start, end = watermarks(consumer, topic)
        consumer.assign([TopicPartition(topic, 0, start)])
        return _read_to(consumer, end)
    except (AssertionError, KafkaException) as error:
        raise AssertionError(f"{topic} cannot be read: {error}\n{_story(cluster, topic)}") from error
    finally:
        consumer.close()


def _story(cluster: LabCluster, topic: str) -> str:
    """What the brokers say about the partition, and the end of their logs: the directory is gone later."""
    logs = {
        number: (cluster.data_directory(number).parent / "broker.log").read_text(errors="replace")
        for number in cluster.brokers
    }
    ends = "\n".join(f"broker {number}:\n{text[-3000:]}" for number, text in logs.items())
    return f"{cluster.partition(topic)}\n{ends}"


def _read_to(consumer: Consumer, end: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message.value())
        elif error.code() == KafkaError._PARTITION_EOF and (message.offset() or 0) >= end:
            return found
    raise AssertionError(f"the end was not reached; {len(found)} records were read")
