"""What a task's rows become, as confluent-kafka reads it: no Spark session, only its writer and a broker."""

import datetime
import uuid
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, MapType, StringType, StructField, StructType

from tidelog.client.errors import Refused, UnknownTopic
from tidelog.spark import OptionError
from tidelog.spark.writing import batch_writer, kernel
from tidelog.spark.writing.encoder import Unwritable

from .arrived import consume
from .conftest import CreateTopic

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NAMED = {
    "int": IntegerType(),
    "string": StringType(),
    "binary": BinaryType(),
    "map": MapType(StringType(), BinaryType()),
}


def schema(**columns: str) -> StructType:
    return StructType([StructField(name, NAMED[kind]) for name, kind in columns.items()])


def write(bootstrap: str, batches: Iterable[pa.RecordBatch], **options: Any) -> int:
    """As Spark would with one task."""
    listed = list(batches)
    named = {name.replace("_", "."): str(value) for name, value in options.items()}
    given = {"kafka.bootstrap.servers": bootstrap, **named}
    writer = batch_writer(given, from_arrow_schema(listed[0].schema), False)
    message = writer.write(iter(listed))
    writer.commit([message])
    return message.records


def batch_of(**columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(list(columns.values()), names=list(columns))


def test_the_hash_is_that_of_the_java_client() -> None:
    # The values of the Java client's own tests.
    for key, hashed in (
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ):
        assert kernel.murmur2(key) == hashed & 0x7FFFFFFF


def test_keys_go_where_the_java_client_puts_them(bootstrap: str, create_topic: CreateTopic) -> None:
    ours, reference = create_topic(5), create_topic(5)
    keys = [str(uuid.uuid4())[: length % 40] for length in range(500)]
    write(bootstrap, [batch_of(key=pa.array(keys), value=pa.array(keys))], topic=ours)
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(reference, key=key, value=key)
    producer.flush()
    found = [(one.partition, one.key, one.value) for one in consume(bootstrap, ours)]
    assert Counter(found) == Counter(
        (one.partition, one.key, one.value) for one in consume(bootstrap, reference)
    )
    assert len(found) == 500


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_field_arrives(bootstrap: str, create_topic: CreateTopic, codec: str) -> None:
    topic = create_topic(3)
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    batch = batch_of(
        key=pa.array([b"k", None, b""]),
        value=pa.array([b"v" * 300, b"", None]),
        partition=pa.array([2, 0, None], pa.int32()),
        timestamp=pa.array([moment, moment - datetime.timedelta(days=1), None], pa.timestamp("us", "UTC")),
        headers=pa.array([[("a", b"1"), ("b", None)], [], None], HEADERS),
    )
    assert write(bootstrap, [batch], topic=topic, **{"kafka.compression.type": codec}) == 3
    by_partition = {one.value: one for one in consume(bootstrap, topic)}
    first = by_partition[b"v" * 300]
    assert (first.partition, first.key, first.headers) == (2, b"k", [("a", b"1"), ("b", None)])
    assert first.timestamp_ms == int(moment.timestamp() * 1000)
    second = by_partition[b""]
    assert (second.partition, second.key, second.headers) == (0, None, [])
    assert second.timestamp_ms == first.timestamp_ms - 86_400_000
    third = by_partition[None]
    assert third.key == b"" and third.partition == kernel.murmur2(b"") % 3
    assert third.timestamp_ms > first.timestamp_ms


def test_sliced_and_large_columns_are_read_where_they_lie(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    headers = pa.array([[("h", str(n).encode())] * (n % 3) for n in range(30)], HEADERS)
    whole = batch_of(
        key=pa.array([None if n % 4 == 0 else str(n) for n in range(30)], pa.large_string()),
        value=pa.array([str(n) for n in range(30)]),
        headers=headers,
    )
    write(bootstrap, [whole.slice(7, 11), whole.slice(0, 0), whole.slice(29)], topic=topic)
    found = consume(bootstrap, topic)
    assert [int(one.value or b"") for one in found] == [*range(7, 18), 29]
    for one in found:
        number = int(one.value or b"")
        assert one.key == (None if number % 4 == 0 else str(number).encode())
        assert one.headers == [("h", str(number).encode())] * (number % 3)


def test_null_keys_are_spread_and_order_is_kept(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(4)
    values = pa.array([f"{n:07}".ljust(100, ".") for n in range(20_000)])
    batches = pa.table([values], ["value"]).to_batches(max_chunksize=3000)
    # Less memory than rows, and chunks that fill many times over.
    options = {"kafka.batch.size": 8192, "kafka.buffer.memory": 20_000}
    assert write(bootstrap, batches, topic=topic, **options) == 20_000
    found = consume(bootstrap, topic)
    sizes = Counter(one.partition for one in found)
    assert len(found) == 20_000 and max(sizes.values()) < 1.2 * min(sizes.values())
    for partition in range(4):
        own = [one.value or b"" for one in found if one.partition == partition]
        assert own == sorted(own)


def test_a_record_larger_than_a_batch_keeps_its_place(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(1)
    values = [b"a", b"b" * 50_000, b"c", b"d" * 60_000, b"e" * 70_000, b"f"]
    headers = pa.array([[("h" * 3000, b"x" * 9000)]] * 6, HEADERS)
    batch = batch_of(value=pa.array(values), headers=headers)
    assert (
        write(bootstrap, [batch], topic=topic, **{"kafka.batch.size": 16384, "kafka.buffer.memory": 65536})
        == 6
    )
    assert [one.value for one in consume(bootstrap, topic)] == values


def test_rows_name_their_topics(bootstrap: str, create_topic: CreateTopic) -> None:
    topics = [create_topic(2), create_topic(3)]
    for start in (0, 100):
        named = pa.array([topics[n % 2] for n in range(start, start + 100)])
        write(bootstrap, [batch_of(topic=named, value=pa.array([str(n) for n in range(start, start + 100)]))])
    for index, topic in enumerate(topics):
        assert {int(one.value or b"") for one in consume(bootstrap, topic)} == set(range(index, 200, 2))


def test_rows_that_cannot_be_written_are_named(bootstrap: str, create_topic: CreateTopic) -> None:
    topic = create_topic(2)
    value = pa.array([b"v"])
    with pytest.raises(Unwritable, match="partition 2 of a topic that has 2"):
        write(bootstrap, [batch_of(value=value, partition=pa.array([2], pa.int32()))], topic=topic)
    with pytest.raises(Unwritable, match="null in column 'topic'"):
        write(bootstrap, [batch_of(value=value, topic=pa.array([None], pa.string()))])
    with pytest.raises(Unwritable, match="no key"):
        write(bootstrap, [batch_of(value=value, headers=pa.array([[(None, b"x")]], HEADERS))], topic=topic)
    with pytest.raises(UnknownTopic, match="no-such-topic"):
        write(bootstrap, [batch_of(value=value)], topic="no-such-topic")
    with pytest.raises(Refused, match="MESSAGE_TOO_LARGE"):
        write(bootstrap, [batch_of(value=pa.array([b"x" * 2_000_000]))], topic=topic)
    assert consume(bootstrap, topic) == []


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ({"key": "string"}, {"topic": "t"}, "no column 'value'"),
        ({"value": "string"}, {}, "Neither the option 'topic' nor a column"),
        ({"value": "int"}, {"topic": "t"}, "Column 'value' is int; allowed: string, binary"),
        ({"value": "string", "headers": "map"}, {"topic": "t"}, "allowed: array<struct<key:string"),
        ({"value": "string"}, {"topic": "t", "topics": "u"}, "no option 'topics'"),
        ({"value": "string"}, {"topic": "t", "kafka.acks": "2"}, "kafka.acks is '2'; allowed: all, -1, 1"),
        (
            {"value": "string"},
            {"topic": "t", "deliveryGuarantee": "twice"},
            "allowed: exactly-once, at-least-once",
        ),
        (
            {"value": "string"},
            {"topic": "t", "kafka.enable.idempotence": "false", "deliveryGuarantee": "exactly-once"},
            "needs kafka.enable.idempotence=true",
        ),
        ({"value": "string"}, {"topic": "t", "kafka.compression.type": "zip"}, "allowed: none, gzip"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(
    columns: dict[str, str], options: dict[str, str], complaint: str
) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", **options}
    with pytest.raises(OptionError, match=complaint.replace("(", r"\(")):
        batch_writer(given, schema(**columns), False)


def test_topics_are_not_overwritten() -> None:
    with pytest.raises(OptionError, match="allowed: mode"):
        batch_writer({"topic": "t"}, schema(value="string"), True)
