"""What confluent-kafka consumes: the yardstick for what Spark reads."""

from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from interop.consumed import headers_of, offset_of, partition_of, topic_of

POLL_S = 10.0


class Seen(NamedTuple):
    """One record, as both sides can tell it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]


def consume(bootstrap: str, topic: str, partitions: int, *, isolation: str = "read_committed") -> list[Seen]:
    """All records that are there now, in order of partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "golden",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": isolation,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    seen: list[Seen] = []
    at_end: set[int] = set()
    while len(at_end) < partitions:
        message = consumer.poll(POLL_S)
        if message is None:
            raise AssertionError(f"the consumer hears nothing any more; it has {len(seen)} records")
        if message.error() is not None:
            at_end.add(partition_of(message))
            continue
        kind, timestamp = message.timestamp()
        seen.append(
            Seen(
                topic_of(message),
                partition_of(message),
                offset_of(message),
                message.key(),
                message.value(),
                timestamp,
                kind - 1,  # the client counts from "not available"
                tuple(headers_of(message)),
            )
        )
    consumer.close()
    return sorted(seen, key=lambda one: (one.partition, one.offset))


def read(spark: SparkSession, bootstrap: str, topic: str | None, **options: Any) -> DataFrame:
    """A batch read; options by their names, with ``__`` for a dot."""
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    if topic is not None:
        reader = reader.option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def rows(frame: DataFrame) -> list[Seen]:
    """What :func:`consume` returns, from a DataFrame with all columns and headers."""
    columns = "topic, partition, offset, key, value, unix_millis(timestamp) AS ms, timestampType, headers"
    found = frame.selectExpr(*columns.split(", ")).collect()
    return sorted(
        (
            Seen(
                row.topic,
                row.partition,
                row.offset,
                _bytes(row.key),
                _bytes(row.value),
                row.ms,
                row.timestampType,
                tuple((one.key, _bytes(one.value)) for one in row.headers or ()),
            )
            for row in found
        ),
        key=lambda one: (one.partition, one.offset),
    )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def produce(
    bootstrap: str, topic: str, values: Any, *, partition: int | None = None, **settings: Any
) -> None:
    """Values, or dicts of what ``Producer.produce`` takes; returns when all are acknowledged."""
    config = {"bootstrap.servers": bootstrap, "linger.ms": 5}
    producer = Producer(config | {name.replace("_", "."): value for name, value in settings.items()})
    failed: list[Any] = []
    for value in values:
        message = dict(value) if isinstance(value, dict) else {"value": value}
        if partition is not None:
            message["partition"] = partition
        message["on_delivery"] = lambda error, _: failed.append(error) if error is not None else None
        while True:
            try:
                producer.produce(topic, **message)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    left = producer.flush(60)
    if left or failed:
        raise AssertionError(f"{left} records were not sent, {len(failed)} failed: {failed[:1]}")
