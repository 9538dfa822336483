"""Fetch sessions (KIP-227): after the first full fetch, only what changed is asked for and answered.

Session epoch 0 opens a session, -1 closes it (or does without one), and each further request counts up.
"""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

import kafka

from . import calls
from .conftest import CreateTopic
from .records import batch, values
from .wire import Wire

pytestmark = pytest.mark.interop

VERSION = 12


def fetch(wire: Wire, session_id: int, session_epoch: int, topics: list[dict[str, Any]], **more: Any) -> Any:
    more.setdefault("max_wait", 0)
    request = calls.fetch_request(topics, session_id=session_id, session_epoch=session_epoch, **more)
    return wire.call("fetch", VERSION, **request)


def of(topic: str, *parts: tuple[int, int]) -> list[dict[str, Any]]:
    """The request's part for a topic: (partition, fetch offset) pairs."""
    return [{"topic": topic, "partitions": [calls.fetch_partition(*part) for part in parts]}]


def found(answer: Any) -> dict[int, list[bytes | None]]:
    parts = [part for topic in answer.responses for part in topic.partitions]
    return {part.partition_index: values(part.records) for part in parts}


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    return create_topic(partitions=3)


def open_session(wire: Wire, topic: str, *parts: tuple[int, int]) -> int:
    answer = fetch(wire, 0, 0, of(topic, *parts))
    assert answer.error_code is ErrorCode.none
    assert answer.session_id != 0
    return answer.session_id  # type: ignore[no-any-return]


def test_the_first_answer_is_full_and_opens_a_session(wire: Wire, topic: str) -> None:
    answer = fetch(wire, 0, 0, of(topic, (0, 0), (1, 0)))
    assert answer.session_id > 0
    assert found(answer) == {0: [], 1: []}


def test_an_incremental_answer_has_only_what_is_new(wire: Wire, topic: str) -> None:
    session = open_session(wire, topic, (0, 0), (1, 0), (2, 0))
    assert found(fetch(wire, session, 1, [])) == {}
    calls.produce(wire, topic, bytes(batch(b"new")), partition=1)
    answer = fetch(wire, session, 2, [])
    assert answer.session_id == session
    assert found(answer) == {1: [b"new"]}


def test_an_incremental_request_moves_a_partitions_offset(wire: Wire, topic: str) -> None:
    session = open_session(wire, topic, (0, 0), (1, 0))
    calls.produce(wire, topic, bytes(batch(b"a")), partition=0)
    assert found(fetch(wire, session, 1, [])) == {0: [b"a"]}
    calls.produce(wire, topic, bytes(batch(b"b")), partition=0)
    assert found(fetch(wire, session, 2, of(topic, (0, 1)))) == {0: [b"b"]}


def test_partitions_can_be_added_and_forgotten(wire: Wire, topic: str) -> None:
    session = open_session(wire, topic, (0, 0))
    added = fetch(wire, session, 1, of(topic, (2, 0)))
    assert set(found(added)) <= {2}
    forgotten = [{"topic": topic, "partitions": [0]}]
    fetch(wire, session, 2, [], forgotten_topics_data=forgotten)
    for partition in (0, 2):
        calls.produce(wire, topic, bytes(batch(b"x")), partition=partition)
    assert found(fetch(wire, session, 3, [])) == {2: [b"x"]}


def test_a_changed_high_watermark_alone_is_worth_an_answer(wire: Wire, topic: str) -> None:
    session = open_session(wire, topic, (0, 0))
    calls.produce(wire, topic, bytes(batch(b"x")), partition=0)
    answer = fetch(wire, session, 1, of(topic, (0, 1)))  # already at the end: nothing to read
    (part,) = answer.responses[0].partitions
    assert part.high_watermark == 1
    assert not part.records


def test_a_waiting_incremental_fetch_is_answered_by_the_next_write(
    wire: Wire, topic: str, bootstrap: str
) -> None:
    session = open_session(wire, topic, (0, 0), (1, 0))
    request = calls.fetch_request([], session_id=session, session_epoch=1, max_wait=600_000)
    correlation_id = wire.send("fetch", VERSION, **request)
    with Wire(bootstrap) as other:
        calls.produce(other, topic, bytes(batch(b"woken")), partition=1)
    assert found(wire.receive("fetch", VERSION, correlation_id)) == {1: [b"woken"]}


def test_an_error_is_reported_as_long_as_it_lasts(wire: Wire, topic: str) -> None:
    session = open_session(wire, topic, (0, 0))
    for epoch in (1, 2):
        answer = fetch(wire, session, epoch, of(topic, (1, 5)) if epoch == 1 else [])
        (part,) = answer.responses[0].partitions
        assert (part.partition_index, part.error_code) == (1, ErrorCode.offset_out_of_range)


def test_an_unknown_session(wire: Wire, topic: str) -> None:
    answer = fetch(wire, 123_456_789, 1, of(topic, (0, 0)))
    assert answer.error_code is ErrorCode.fetch_session_id_not_found
    assert answer.responses == ()


@pytest.mark.parametrize("epoch", [2, 7])
def test_an_epoch_out_of_order(wire: Wire, topic: str, epoch: int) -> None:
    session = open_session(wire, topic, (0, 0))
    answer = fetch(wire, session, epoch, [])
    assert answer.error_code is ErrorCode.invalid_fetch_session_epoch
    assert found(fetch(wire, session, 1, [])) == {}  # the right one still works


def test_a_closed_session_is_gone(wire: Wire, topic: str) -> None:
    session = open_session(wire, topic, (0, 0))
    closing = fetch(wire, session, -1, of(topic, (0, 0)))
    assert closing.error_code is ErrorCode.none
    assert closing.session_id == 0
    assert fetch(wire, session, 1, []).error_code is ErrorCode.fetch_session_id_not_found


def test_opening_again_replaces_the_session(wire: Wire, topic: str) -> None:
    first = open_session(wire, topic, (0, 0))
    answer = fetch(wire, first, 0, of(topic, (1, 0)))
    assert answer.error_code is ErrorCode.none
    assert answer.session_id not in (0, first)
    assert fetch(wire, first, 1, []).error_code is ErrorCode.fetch_session_id_not_found


def test_without_a_session_every_answer_is_full(wire: Wire, topic: str) -> None:
    for _ in range(2):
        answer = fetch(wire, 0, -1, of(topic, (0, 0), (1, 0)))
        assert answer.session_id == 0
        assert found(answer) == {0: [], 1: []}


def test_sessions_of_two_clients_do_not_mix(wire: Wire, topic: str, bootstrap: str) -> None:
    with Wire(bootstrap) as other:
        mine, theirs = open_session(wire, topic, (0, 0)), open_session(other, topic, (1, 0))
        assert mine != theirs
        for partition in (0, 1):
            calls.produce(wire, topic, bytes(batch(str(partition).encode())), partition=partition)
        assert found(fetch(wire, mine, 1, [])) == {0: [b"0"]}
        assert found(fetch(other, theirs, 1, [])) == {1: [b"1"]}


def test_a_session_names_topics_by_id_from_version_13(wire: Wire, topic: str) -> None:
    topics = of(topic, (0, 0))
    topics[0]["topic_id"] = calls.topic_id(wire, topic)
    opened = wire.call("fetch", 15, **calls.fetch_request(topics, session_epoch=0, max_wait=0))
    assert opened.responses[0].topic_id == topics[0]["topic_id"]
    calls.produce(wire, topic, bytes(batch(b"by id")))
    request = calls.fetch_request([], session_id=opened.session_id, session_epoch=1, max_wait=0)
    assert found(wire.call("fetch", 15, **request)) == {0: [b"by id"]}


def test_a_topic_made_anew_under_its_old_name_is_another_topic(wire: Wire, topic: str) -> None:
    topics = of(topic, (0, 0))
    topics[0]["topic_id"] = calls.topic_id(wire, topic)
    opened = wire.call("fetch", 15, **calls.fetch_request(topics, session_epoch=0, max_wait=0))
    wire.call("delete_topics", 5, topic_names=[topic], timeout=30_000)
    calls.await_deletion(wire, topic)
    calls.create_topic(wire, topic, 3)
    calls.produce(wire, topic, bytes(batch(b"of the new topic")))
    request = calls.fetch_request([], session_id=opened.session_id, session_epoch=1, max_wait=0)
    answer = wire.call("fetch", 15, **request)
    if answer.error_code is ErrorCode.none:
        (part,) = answer.responses[0].partitions
        assert part.error_code in (ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id)
        assert not part.records
    else:
        assert answer.error_code in (ErrorCode.fetch_session_topic_id_error, ErrorCode.unknown_topic_id)


def test_a_long_reading_client_uses_them_without_noticing(
    wire: Wire, bootstrap: str, create_topic: CreateTopic
) -> None:
    """kafka-python keeps one session while partitions fill, are paused and go on at different times."""
    topic = create_topic(partitions=3)
    places = [kafka.TopicPartition(topic, partition) for partition in range(3)]
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
    read: list[tuple[int, bytes]] = []

    def read_count(count: int) -> bool:
        for found in consumer.poll(timeout_ms=200).values():
            read.extend((record.partition, record.value) for record in found)
        return len(read) >= count

    try:
        consumer.assign(places)
        written = []
        for turn, partition in enumerate([0, 1, 2, 2, 0, 1, 1, 0, 2]):
            paused = places[(partition + 1) % 3]
            consumer.pause(paused)
            calls.produce(wire, topic, bytes(batch(b"%d" % turn)), partition=partition)
            written.append((partition, b"%d" % turn))
            calls.eventually(lambda: read_count(len(written)), f"record {turn} arrives")
            consumer.resume(paused)
        assert read == written
    finally:
        consumer.close()
