"""Fetch at the wire: limits, waiting, the edges of the log, and what a fetch must never return."""

import time
import uuid
from threading import Timer

import pytest
from kio.schema.errors import ErrorCode

from . import calls
from .conftest import CreateTopic
from .records import batch, batches, records, values
from .wire import Wire

pytestmark = pytest.mark.interop


def fill(wire: Wire, topic: str, count: int, size: int = 1000, partition: int = 0) -> None:
    """``count`` batches of one record of ``size`` bytes each."""
    for number in range(count):
        answer = calls.produce(wire, topic, bytes(batch(bytes([number]) * size)), partition=partition)
        assert answer.error_code is ErrorCode.none


def test_the_answer_says_where_the_log_ends(wire: Wire, topic: str) -> None:
    fill(wire, topic, 5)
    answer = calls.fetch(wire, topic, 0)
    assert answer.error_code is ErrorCode.none
    assert (answer.log_start_offset, answer.high_watermark, answer.last_stable_offset) == (0, 5, 5)
    assert [record.offset for record in records(answer.records)] == [0, 1, 2, 3, 4]


def test_a_fetch_from_the_middle_of_a_batch_returns_the_whole_batch(wire: Wire, topic: str) -> None:
    calls.produce(wire, topic, bytes(batch(b"0", b"1", b"2", b"3")))
    calls.produce(wire, topic, bytes(batch(b"4", b"5")))
    found = batches(calls.fetch(wire, topic, 2).records)
    assert [each.base_offset for each in found] == [0, 4]


def test_at_the_end_there_is_nothing_yet(wire: Wire, topic: str) -> None:
    fill(wire, topic, 3)
    answer = calls.fetch(wire, topic, 3, max_wait=50)
    assert answer.error_code is ErrorCode.none
    assert answer.high_watermark == 3
    assert not answer.records


@pytest.mark.parametrize("offset", [4, 1000, 2**62, -1, -5])
def test_outside_of_the_log(wire: Wire, topic: str, offset: int) -> None:
    fill(wire, topic, 3)
    answer = calls.fetch(wire, topic, offset, max_wait=30_000)  # an error is answered at once
    assert answer.error_code is ErrorCode.offset_out_of_range
    assert not answer.records


def test_below_the_start_of_the_log(wire: Wire, topic: str) -> None:
    fill(wire, topic, 5)
    request = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 3}]}]
    wire.call("delete_records", 2, topics=request, timeout=30_000)
    assert calls.fetch(wire, topic, 2).error_code is ErrorCode.offset_out_of_range
    answer = calls.fetch(wire, topic, 3)
    assert answer.log_start_offset == 3
    assert [record.offset for record in records(answer.records)] == [3, 4]


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_unknown_partition(wire: Wire, topic: str, partition: int) -> None:
    answer = calls.fetch(wire, topic, 0, partition=partition)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition


def test_unknown_topic_by_name(wire: Wire) -> None:
    answer = calls.fetch(wire, "no-such-topic", 0)
    assert answer.error_code is ErrorCode.unknown_topic_or_partition


def test_unknown_topic_by_id(wire: Wire) -> None:
    topics = [{"topic_id": uuid.uuid4(), "partitions": [calls.fetch_partition(0, 0)]}]
    answer = wire.call("fetch", 13, **calls.fetch_request(topics))
    assert answer.responses[0].partitions[0].error_code is ErrorCode.unknown_topic_id


def test_partition_max_bytes_cuts_between_batches_or_inside_the_last(wire: Wire, topic: str) -> None:
    fill(wire, topic, 20)
    answer = calls.fetch(wire, topic, 0, partition_fields={"partition_max_bytes": 3500})
    assert len(answer.records) <= 3500
    assert [each.base_offset for each in batches(answer.records)] == [0, 1, 2]


def test_max_bytes_limits_the_whole_answer(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=3)
    for partition in range(3):
        fill(wire, topic, 5, partition=partition)
    parts = [calls.fetch_partition(partition, 0) for partition in range(3)]
    request = calls.fetch_request([{"topic": topic, "partitions": parts}], max_bytes=6000)
    answer = wire.call("fetch", 12, **request)
    sizes = {part.partition_index: len(part.records or b"") for part in answer.responses[0].partitions}
    assert sum(sizes.values()) <= 6000
    assert sizes[0] > 5000  # the first partition asked for is served first; the last may get nothing
    assert sizes[2] == 0


def test_one_batch_comes_back_however_small_the_limits(wire: Wire, topic: str) -> None:
    # Otherwise a consumer whose limit is smaller than one batch would be stuck forever.
    fill(wire, topic, 2, size=50_000)
    answer = calls.fetch(wire, topic, 0, max_bytes=1, partition_fields={"partition_max_bytes": 1})
    assert [each.base_offset for each in batches(answer.records)] == [0]


def test_nothing_to_read_is_answered_after_max_wait(wire: Wire, topic: str) -> None:
    start = time.monotonic()
    answer = calls.fetch(wire, topic, 0, max_wait=300)
    assert time.monotonic() - start >= 0.29  # a broker that answers at once makes clients spin
    assert not answer.records


def test_max_wait_zero_does_not_wait(wire: Wire, topic: str) -> None:
    wire.socket.settimeout(20)
    assert not calls.fetch(wire, topic, 0, max_wait=0, min_bytes=1_000_000).records


def test_a_waiting_fetch_is_answered_by_the_next_write(wire: Wire, topic: str, bootstrap: str) -> None:
    request = calls.fetch_request([{"topic": topic, "partitions": [calls.fetch_partition(0, 0)]}])
    request["max_wait"] = 600_000  # the test's own timeout would end it, never this
    correlation_id = wire.send("fetch", 12, **request)
    with Wire(bootstrap) as other:
        calls.produce(other, topic, bytes(batch(b"fresh")))
    answer = wire.receive("fetch", 12, correlation_id)
    assert values(answer.responses[0].partitions[0].records) == [b"fresh"]


def test_min_bytes_waits_for_enough(wire: Wire, topic: str, bootstrap: str) -> None:
    request = calls.fetch_request([{"topic": topic, "partitions": [calls.fetch_partition(0, 0)]}])
    request |= {"max_wait": 600_000, "min_bytes": 5000}
    correlation_id = wire.send("fetch", 12, **request)
    with Wire(bootstrap) as other:
        fill(other, topic, 4)
        assert calls.end_offset(other, topic) == 4  # by now the waiting fetch has seen all four, and waits on
        fill(other, topic, 1, size=2000)
    answer = wire.receive("fetch", 12, correlation_id)
    assert len(answer.responses[0].partitions[0].records) >= 5000


def test_a_waiting_fetch_is_answered_by_any_of_its_partitions(
    wire: Wire, create_topic: CreateTopic, bootstrap: str
) -> None:
    topic = create_topic(partitions=3)
    parts = [calls.fetch_partition(partition, 0) for partition in range(3)]
    request = calls.fetch_request([{"topic": topic, "partitions": parts}], max_wait=600_000)
    correlation_id = wire.send("fetch", 12, **request)
    with Wire(bootstrap) as other:
        calls.produce(other, topic, bytes(batch(b"in the last")), partition=2)
    answer = wire.receive("fetch", 12, correlation_id)
    found = {part.partition_index: values(part.records) for part in answer.responses[0].partitions}
    assert found == {0: [], 1: [], 2: [b"in the last"]}


def test_an_error_in_one_partition_is_answered_at_once(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=2)
    parts = [calls.fetch_partition(0, 0), calls.fetch_partition(1, 5)]
    request = calls.fetch_request([{"topic": topic, "partitions": parts}], max_wait=600_000)
    answer = wire.call("fetch", 12, **request)
    codes = {part.partition_index: part.error_code for part in answer.responses[0].partitions}
    assert codes == {0: ErrorCode.none, 1: ErrorCode.offset_out_of_range}


@pytest.mark.parametrize("isolation_level", [0, 1])
def test_without_transactions_both_isolation_levels_read_the_same(
    wire: Wire, topic: str, isolation_level: int
) -> None:
    calls.produce(wire, topic, bytes(batch(b"a", b"b")))
    answer = calls.fetch(wire, topic, 0, isolation_level=isolation_level)
    assert values(answer.records) == [b"a", b"b"]
    assert answer.last_stable_offset == 2
    assert not answer.aborted_transactions


def test_fetch_by_id_finds_what_fetch_by_name_finds(wire: Wire, topic: str) -> None:
    fill(wire, topic, 3)
    by_name = calls.fetch(wire, topic, 0, version=12)
    by_id = calls.fetch(wire, topic, 0, version=16)
    assert by_id.records == by_name.records


def test_a_deleted_topic_ends_a_waiting_fetch_or_is_noticed_by_the_next(
    wire: Wire, topic: str, bootstrap: str
) -> None:
    topic_id = calls.topic_id(wire, topic)
    topics = [{"topic_id": topic_id, "partitions": [calls.fetch_partition(0, 0)]}]
    with Wire(bootstrap) as other:
        Timer(0.1, other.call, ("delete_topics", 5), {"topic_names": [topic], "timeout": 30_000}).start()

        def gone() -> bool:
            answer = wire.call("fetch", 13, **calls.fetch_request(topics, max_wait=200))
            return answer.responses[0].partitions[0].error_code in (
                ErrorCode.unknown_topic_id,
                ErrorCode.unknown_topic_or_partition,
                ErrorCode.not_leader_or_follower,
            )

        calls.eventually(gone, "a fetch by id says that the topic is gone")


def test_reading_in_small_steps_sees_every_record_once(wire: Wire, create_topic: CreateTopic) -> None:
    topic = create_topic(segment_bytes=1 << 20)
    fill(wire, topic, 60, size=100_000)
    seen: list[int] = []
    while len(seen) < 60:
        answer = calls.fetch(wire, topic, len(seen), partition_fields={"partition_max_bytes": 250_000})
        assert answer.error_code is ErrorCode.none
        new = [record.offset for record in records(answer.records) if record.offset >= len(seen)]
        assert new, f"nothing at offset {len(seen)} although the log ends at {answer.high_watermark}"
        seen += new
    assert seen == list(range(60))
