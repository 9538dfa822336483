"""What Spark reads is what confluent-kafka consumes: every column, every codec, every kind of log."""

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from .golden import consume, produce, read, rows

CreateTopic = Callable[..., str]


def varied(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Records of all shapes: no key, no value, empty ones, long ones, headers with and without content."""
    chance = random.Random(seed)
    now = int(time.time() * 1000)
    for index in range(count):
        value_size = chance.choice([0, 1, 31, 32, 33, 100, 511, 512, 513, 2000])
        yield {
            "key": chance.choice([None, b"", b"k%d" % index, chance.randbytes(40)]),
            "value": chance.choice([None, b"", chance.randbytes(value_size), b"%d" % index * 10]),
            "timestamp": now + chance.randrange(-10_000_000, 10_000),
            "headers": chance.choice(
                [None, [("trace", b"%d" % index)], [("a", None), ("ä", b""), ("a", chance.randbytes(70))]]
            ),
            "partition": index % 3,
        }


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_columns_of_every_codec(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, codec: str
) -> None:
    topic = create_topic(3)
    produce(bootstrap, topic, varied(1_500, seed=len(codec)), compression_type=codec, batch_num_messages=100)
    expected = consume(bootstrap, topic, 3)
    assert len(expected) == 1_500
    assert rows(read(spark, bootstrap, topic, includeHeaders=True)) == expected


def test_many_small_batches_in_fetches_that_end_inside_batches(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(3)
    produce(bootstrap, topic, varied(3_000, seed=7), batch_num_messages=1)
    frame = read(spark, bootstrap, topic, includeHeaders=True, kafka__max__partition__fetch__bytes=10_000)
    assert rows(frame) == consume(bootstrap, topic, 3)


def test_a_batch_larger_than_a_fetch_may_be(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(1)
    values = [bytes([index]) * 300_000 for index in range(3)]
    produce(bootstrap, topic, values, compression_type="zstd")
    produce(bootstrap, topic, values)
    found = read(spark, bootstrap, topic, kafka__max__partition__fetch__bytes=1, columns="offset,value")
    assert [bytes(row.value) for row in found.orderBy("offset").collect()] == values * 2


def test_the_brokers_time(spark: SparkSession, bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1, message_timestamp_type="LogAppendTime")
    produce(bootstrap, topic, [b"a", b"b"])
    expected = consume(bootstrap, topic, 1)
    assert [one.timestamp_type for one in expected] == [1, 1]
    assert rows(read(spark, bootstrap, topic, includeHeaders=True)) == expected


def test_transactions_are_read_as_the_isolation_level_says(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, [b"plain"])
    for index, outcome in enumerate(["commit", "abort", "commit", "abort"]):
        producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{index % 2}", "linger.ms": 0}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(50):
            producer.produce(topic, f"{outcome}-{index}-{number}".encode(), partition=0)
            if number % 10 == 0:
                producer.flush()
        producer.flush()  # what an abort finds unsent is never sent
        if outcome == "commit":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        del producer
        produce(bootstrap, topic, [f"between-{index}".encode()])
    committed = consume(bootstrap, topic, 1)
    everything = consume(bootstrap, topic, 1, isolation="read_uncommitted")
    assert (len(committed), len(everything)) == (105, 205)
    options = {"includeHeaders": True, "kafka__isolation__level": "read_committed"}
    assert rows(read(spark, bootstrap, topic, **options)) == committed
    assert rows(read(spark, bootstrap, topic, includeHeaders=True)) == everything
    # Cut into tasks that begin and end inside transactions.
    assert rows(read(spark, bootstrap, topic, **options, minPartitions=9)) == committed


def test_an_open_transaction_hides_what_is_behind_it(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic
) -> None:
    topic = create_topic(1)
    produce(bootstrap, topic, [b"before"])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"undecided")
    producer.flush(30)
    produce(bootstrap, topic, [b"after"])
    frame = read(spark, bootstrap, topic, columns="value", kafka__isolation__level="read_committed")
    assert [bytes(row.value) for row in frame.collect()] == [b"before"]
    producer.commit_transaction(30)
    assert {bytes(row.value) for row in frame.collect()} >= {b"before"}
    again = read(spark, bootstrap, topic, columns="value", kafka__isolation__level="read_committed")
    assert [bytes(row.value) for row in again.collect()] == [b"before", b"undecided", b"after"]


def test_a_compacted_log_with_gaps(spark: SparkSession, bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(
        1, cleanup_policy="compact", segment_bytes=20_000, min_cleanable_dirty_ratio=0.01, segment_ms=200
    )
    for turn in range(4):
        produce(
            bootstrap, topic, [{"key": b"%d" % (n % 20), "value": b"%d-%d" % (turn, n)} for n in range(400)]
        )
    deadline = time.monotonic() + 60
    while len(expected := consume(bootstrap, topic, 1)) > 1_200:
        assert time.monotonic() < deadline, f"nothing was compacted: {len(expected)} records"
        produce(bootstrap, topic, [{"key": b"more", "value": b"x" * 1000}] * 10)  # closes segments
    expected = consume(bootstrap, topic, 1)
    found = rows(read(spark, bootstrap, topic, includeHeaders=True, minPartitions=7))
    # Compaction goes on: whatever is gone meanwhile was compacted, what is left is the same.
    assert {one.offset for one in consume(bootstrap, topic, 1)} <= {one.offset for one in found}
    assert [one for one in found if one in set(expected)] == found
