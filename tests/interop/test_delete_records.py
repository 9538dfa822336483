"""DeleteRecords: the log starts later from then on, for everyone and for good."""

from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from . import calls
from .clients import CLIENTS, Client
from .conftest import CreateTopic
from .records import batch, records
from .wire import Wire

pytestmark = pytest.mark.interop

HIGH_WATERMARK = -1


def delete(wire: Wire, topic: str, offset: int, partition: int = 0) -> Any:
    parts = [{"partition_index": partition, "offset": offset}]
    answer = wire.call("delete_records", 2, topics=[{"name": topic, "partitions": parts}], timeout=30_000)
    return answer.topics[0].partitions[0]


@pytest.fixture
def filled(wire: Wire, topic: str) -> str:
    """Ten records, two in a batch."""
    for n in range(0, 10, 2):
        calls.produce(wire, topic, bytes(batch(b"%d" % n, b"%d" % (n + 1))))
    return topic


def test_the_log_starts_at_the_offset(wire: Wire, filled: str) -> None:
    answer = delete(wire, filled, 5)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 5)
    assert calls.start_offset(wire, filled) == 5
    assert calls.end_offset(wire, filled) == 10
    fetched = calls.fetch(wire, filled, 5)
    assert fetched.log_start_offset == 5
    assert records(fetched.records)[-1].offset == 9


def test_everything_up_to_the_high_watermark(wire: Wire, filled: str) -> None:
    answer = delete(wire, filled, HIGH_WATERMARK)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 10)
    assert calls.start_offset(wire, filled) == calls.end_offset(wire, filled) == 10
    assert calls.produce(wire, filled, bytes(batch(b"next"))).base_offset == 10


def test_it_never_goes_back(wire: Wire, filled: str) -> None:
    delete(wire, filled, 6)
    answer = delete(wire, filled, 2)
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.none, 6)


def test_past_the_end(wire: Wire, filled: str) -> None:
    assert delete(wire, filled, 11).error_code is ErrorCode.offset_out_of_range
    assert delete(wire, filled, -5).error_code is ErrorCode.offset_out_of_range
    assert calls.start_offset(wire, filled) == 0


def test_unknown_partition(wire: Wire, filled: str) -> None:
    assert delete(wire, filled, 0, partition=4).error_code is ErrorCode.unknown_topic_or_partition
    assert delete(wire, "no-such-topic", 0).error_code is ErrorCode.unknown_topic_or_partition


def test_a_compacted_topic_is_not_cut(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(cleanup_policy="compact")
    calls.produce(wire, topic, bytes(batch(b"v", keys=[b"k"])))
    assert delete(wire, topic, 1).error_code is ErrorCode.policy_violation


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_clients_read_from_the_new_start(client: Client, wire: Wire, bootstrap: str, filled: str) -> None:
    delete(wire, filled, 5)  # in the middle of a batch: what comes before 5 must not be seen
    received = client.consume(bootstrap, filled, 5, offset=5)
    assert [(record.offset, record.value) for record in received] == [(n, b"%d" % n) for n in range(5, 10)]


def test_confluent_admin(wire: Wire, bootstrap: str, filled: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (future,) = admin.delete_records([TopicPartition(filled, 0, 4)]).values()
    assert future.result(30).low_watermark == 4
    assert calls.start_offset(wire, filled) == 4
