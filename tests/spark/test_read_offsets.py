"""Where a read begins and ends, how it is cut into tasks, which columns it has, which filters go down."""

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from tidelog.spark.options import OptionError
from tidelog.spark.reading.batch import TidelogReader
from tidelog.spark.reading.columns import COLUMNS, default_schema
from tidelog.spark.reading.settings import read_settings

from .golden import produce, read

CreateTopic = Callable[..., str]
FILTERS = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def base_ms() -> int:
    return int(time.time() * 1000) - 100_000


@pytest.fixture(scope="module")
def topic(bootstrap: str, base_ms: int) -> str:
    """Two partitions of 100 records; the value of each is its offset, its time the base and a second each."""
    from confluent_kafka.admin import AdminClient, NewTopic

    name = f"offsets-{base_ms}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    for partition in range(2):
        messages = [{"value": b"%d" % n, "timestamp": base_ms + 1000 * n} for n in range(100)]
        produce(bootstrap, name, messages, partition=partition)
    return name


def planned(bootstrap: str, **options: Any) -> tuple[TidelogReader, list[Any]]:
    """A reader and its tasks, as Spark's driver has them."""
    given = {"kafka.bootstrap.servers": bootstrap} | {name: str(value) for name, value in options.items()}
    reader = TidelogReader(read_settings(given, streaming=False), default_schema(given))
    return reader, reader.partitions()


def offsets(bootstrap: str, **options: Any) -> list[tuple[int, int]]:
    """(partition, offset) of all that its tasks read, without a session: that is quicker."""
    reader, tasks = planned(bootstrap, columns="partition,offset", **options)
    batches = [batch.to_pydict() for task in tasks for batch in reader.read(task)]
    return sorted(pair for batch in batches for pair in zip(batch["partition"], batch["offset"], strict=True))


def every(*parts: tuple[int, int, int]) -> list[tuple[int, int]]:
    """(partition, first, behind the last) as the list of their offsets."""
    return [(partition, offset) for partition, first, end in parts for offset in range(first, end)]


CASES: dict[str, tuple[dict[str, Any], list[tuple[int, int]]]] = {
    "everything": ({}, every((0, 0, 100), (1, 0, 100))),
    "named offsets": (
        {"startingOffsets": {"0": 10, "1": -2}, "endingOffsets": {"0": 20, "1": -1}},
        every((0, 10, 20), (1, 0, 100)),
    ),
    "nothing": (
        {"startingOffsets": {"0": 100, "1": 50}, "endingOffsets": {"0": 100, "1": 50}},
        [],
    ),
    "a time": ({"startingTimestamp": 90_000}, every((0, 90, 100), (1, 90, 100))),
    "times": (
        {
            "startingOffsetsByTimestamp": {"0": 95_000, "1": 98_500},
            "endingOffsetsByTimestamp": {"0": 97_000, "1": 999_999_999},
        },
        every((0, 95, 97), (1, 99, 100)),
    ),
    "a time at the end": (
        {"startingTimestamp": 999_999, "startingOffsetsByTimestampStrategy": "latest"},
        [],
    ),
    "an end by time": ({"endingTimestamp": 3_000}, every((0, 0, 3), (1, 0, 3))),
}


@pytest.mark.parametrize("case", CASES)
def test_begin_and_end(bootstrap: str, topic: str, base_ms: int, case: str) -> None:
    options, expected = CASES[case]
    texts: dict[str, Any] = {}
    for name, value in options.items():
        shift = base_ms if name.endswith("Timestamp") else 0
        if isinstance(value, dict):
            texts[name] = json.dumps({topic: {key: number + shift for key, number in value.items()}})
        else:
            texts[name] = value + shift if isinstance(value, int) else value
    assert offsets(bootstrap, subscribe=topic, **texts) == expected


def test_which_topics(bootstrap: str, topic: str, create_topic: CreateTopic) -> None:
    other = create_topic(1, name=f"{topic}-too")
    produce(bootstrap, other, [b"one"])

    def chosen(**options: Any) -> set[tuple[str, int]]:
        return {(task.topic, task.partition) for task in planned(bootstrap, **options)[1]}

    both = {(topic, 0), (topic, 1), (other, 0)}
    assert chosen(subscribe=f"{topic}, {other}") == both
    assert chosen(subscribePattern=f"{topic}.*") == both
    assert chosen(subscribePattern=f"{topic}-t..") == {(other, 0)}
    assert chosen(assign=json.dumps({topic: [1], other: [0]})) == {(topic, 1), (other, 0)}
    assert chosen(subscribePattern="nothing-is-called-that") == set()


@pytest.mark.parametrize(
    ("options", "tasks"),
    [({}, 2), ({"minPartitions": 1}, 2), ({"minPartitions": 8}, 8), ({"maxRecordsPerPartition": 30}, 8)],
)
def test_tasks(bootstrap: str, topic: str, options: dict[str, Any], tasks: int) -> None:
    assert len(planned(bootstrap, subscribe=topic, **options)[1]) == tasks
    assert offsets(bootstrap, subscribe=topic, **options) == every((0, 0, 100), (1, 0, 100))


def test_columns_are_those_of_sparks_own_source_or_those_asked_for(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    frame = read(spark, bootstrap, topic)
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    with_headers = read(spark, bootstrap, topic, includeHeaders=True)
    assert with_headers.dtypes[-1] == ("headers", "array<struct<key:string,value:binary>>")
    # The order is the user's, and so is the choice.
    assert read(spark, bootstrap, topic, columns="offset, VALUE").columns == ["offset", "value"]
    chosen = spark.read.format("tidelog").schema("offset bigint, topic string")
    chosen = chosen.option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    rows = chosen.load().where("offset = 7").collect()
    assert [(row.offset, row.topic) for row in rows] == [(7, topic)] * 2


@pytest.mark.parametrize("name", COLUMNS)
def test_any_column_alone(bootstrap: str, topic: str, name: str) -> None:
    reader, tasks = planned(bootstrap, subscribe=topic, columns=name)
    batches = [batch for task in tasks for batch in reader.read(task)]
    assert {tuple(batch.schema.names) for batch in batches} == {(name,)}
    assert sum(batch.num_rows for batch in batches) == 200


def test_an_empty_topic(spark: SparkSession, bootstrap: str, create_topic: CreateTopic) -> None:
    assert read(spark, bootstrap, create_topic(3)).collect() == []


def test_a_query_that_stops_early(spark: SparkSession, bootstrap: str, topic: str) -> None:
    assert len(read(spark, bootstrap, topic, kafka__max__partition__fetch__bytes=500).limit(3).collect()) == 3


FILTERED: dict[str, tuple[str, list[tuple[int, int]]]] = {
    "partition": ("partition = 1", every((1, 0, 100))),
    "some partitions": ("partition in (0, 7)", every((0, 0, 100))),
    "partitions above": ("partition > 0", every((1, 0, 100))),
    "offsets": ("offset >= 90 and offset < 93", every((0, 90, 93), (1, 90, 93))),
    "one offset": ("offset = 5 and partition <= 0", [(0, 5)]),
    "younger": (
        "timestamp >= '{95}' and offset <> 96",
        [one for one in every((0, 95, 100), (1, 95, 100)) if one[1] != 96],
    ),
    "a moment": ("timestamp = '{95}'", [(0, 95), (1, 95)]),
    "older": ("timestamp < '{2}'", every((0, 0, 2), (1, 0, 2))),
    "not pushed": ("offset % 50 = 0 and value is not null", [(0, 0), (0, 50), (1, 0), (1, 50)]),
    "either": ("offset < 1 or offset > 98", [(0, 0), (0, 99), (1, 0), (1, 99)]),
    "none": ("topic = 'another'", []),
}


@pytest.mark.parametrize("pushed", [False, True], ids=["not pushed", "pushed"])
def test_filters_whether_they_are_pushed_down_or_not(
    spark: SparkSession, bootstrap: str, topic: str, base_ms: int, pushed: bool
) -> None:
    def moment(second: int) -> str:
        return datetime.fromtimestamp(base_ms / 1000 + second, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")

    def condition(text: str) -> str:
        return text.replace("{2}", moment(2)).replace("{95}", moment(95))

    spark.conf.set(FILTERS, str(pushed).lower())
    try:
        frames = [
            read(spark, bootstrap, topic)
            .where(condition(text))
            .selectExpr(f"'{name}' AS name", "partition", "offset")
            for name, (text, _) in FILTERED.items()
        ]
        found = reduce(DataFrame.unionAll, frames).collect()  # one job for all: each costs a moment
        for name, (text, expected) in FILTERED.items():
            assert sorted((row.partition, row.offset) for row in found if row.name == name) == expected, text
        frame = read(spark, bootstrap, topic).where("partition = 1 and offset >= 40")
        assert frame.rdd.getNumPartitions() == (1 if pushed else 2)
    finally:
        spark.conf.set(FILTERS, "false")


def test_a_topic_of_many_small_partitions_takes_few_tasks(bootstrap: str, create_topic: CreateTopic) -> None:
    count = 8 * (os.cpu_count() or 1) + 40
    name = create_topic(count)
    messages = [{"value": b"x", "partition": number} for number in range(count) for _ in range(3)]
    produce(bootstrap, name, messages)
    for options, most in (({}, 2 * (os.cpu_count() or 1) + 8), ({"maxPartitions": 3}, 3)):
        reader, tasks = planned(bootstrap, subscribe=name, columns="partition,offset", **options)
        assert len(tasks) <= most
        batches = [batch for task in tasks for batch in reader.read(task)]
        assert len(batches) == len(tasks)
        rows = [pair for one in batches for pair in zip(*one.to_pydict().values(), strict=True)]
        assert sorted(rows) == every(*((number, 0, 3) for number in range(count)))


@pytest.fixture
def half_open(bootstrap: str, create_topic: CreateTopic, base_ms: int) -> Iterator[str]:
    """A topic of five committed records and three more of a transaction that stays open."""
    name = create_topic(1)
    messages: list[dict[str, Any]]
    messages = [{"value": b"%d" % n, "timestamp": base_ms + 1000 * n} for n in range(8)]
    produce(bootstrap, name, messages[:5])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for message in messages[5:]:
        producer.produce(name, **message)
    producer.flush(30)
    yield name
    producer.abort_transaction(30)


def test_an_end_by_time_in_an_open_transaction(bootstrap: str, half_open: str, base_ms: int) -> None:
    committed = {"kafka.isolation.level": "read_committed", "kafkaConsumer.pollTimeoutMs": 3_000}

    def read_up_to(seconds: int) -> list[tuple[int, int]]:
        end = {"endingTimestamp": base_ms + 1000 * seconds}
        return offsets(bootstrap, subscribe=half_open, **end, **committed)

    assert read_up_to(6) == every((0, 0, 5))
    assert read_up_to(3) == every((0, 0, 3))
    start = {"startingTimestamp": base_ms + 6000, "startingOffsetsByTimestampStrategy": "latest"}
    assert offsets(bootstrap, subscribe=half_open, **start, **committed) == []


def test_offsets_in_an_open_transaction_are_not_lost(bootstrap: str, half_open: str) -> None:
    end = {"endingOffsets": json.dumps({half_open: {"0": 7}}), "kafka.isolation.level": "read_committed"}
    with pytest.raises(OptionError, match=f"holds back {half_open}-0, .* offset 5, and not to 7"):
        planned(bootstrap, subscribe=half_open, **end)


def test_open_transactions_are_read_by_default(bootstrap: str, half_open: str) -> None:
    """As Kafka's consumers and Spark's own source do."""
    assert offsets(bootstrap, subscribe=half_open) == every((0, 0, 8))
