"""Requests whose answer, or whose work, would be many times as large as they are themselves."""

from io import BytesIO

import pytest

from tidelog.broker.registry import SERVED
from tidelog.errors import ErrorCode
from tidelog.protocol import fetch, messages, produce
from tidelog.protocol.kio_import import entity_writer
from tidelog.protocol.messages import entity_builder
from tidelog.protocol.own_schemas import load_request_schema
from tidelog.protocol.wire import ELEMENTS_MAX, INT32, Malformed
from unit.broker.fakes import FakeBroker
from unit.broker.handlers.group_broker import commit, group_broker

LIST_OFFSETS, FIND_COORDINATOR = 2, 10
FEW = 100


@pytest.mark.parametrize("version", [1, 9, 12])
def test_a_topic_is_described_once(broker: FakeBroker, version: int) -> None:
    broker.create("t", 3)
    topics = [{"name": name} for name in ("t", "nope", "t", "nope", "t")]
    answer = broker.call("metadata", version, topics=topics, allow_auto_topic_creation=False)
    assert [topic.name for topic in answer.topics] == ["t", "nope"]


def test_a_topics_settings_are_described_once(broker: FakeBroker) -> None:
    broker.create("t")
    topic = {"resource_type": 2, "resource_name": "t", "configuration_keys": None}
    other = {**topic, "configuration_keys": ("retention.ms",)}
    answer = broker.call("describe_configs", resources=[topic, other, topic, other])
    assert [len(result.configs) > 1 for result in answer.results] == [True, False]


def test_groups_are_described_once() -> None:
    broker = group_broker()
    names = ["g", "h", "g", "g"]
    for answer in (
        broker.call("describe_groups", groups=names),
        broker.call("consumer_group_describe", group_ids=names),
    ):
        assert [each.group_id for each in answer.groups] == ["g", "h"]


def test_transactions_are_described_once(broker: FakeBroker) -> None:
    answer = broker.call("describe_transactions", transactional_ids=["x", "y", "x"])
    assert [each.transactional_id for each in answer.transaction_states] == ["x", "y"]


def test_producers_of_a_partition_are_described_once(broker: FakeBroker) -> None:
    broker.create("t", 2)
    topics = [{"name": "t", "partition_indexes": indexes} for indexes in ([1, 1, 0], [0, 1])]
    (topic,) = broker.call("describe_producers", topics=topics).topics
    assert [each.partition_index for each in topic.partitions] == [1, 0]


def test_all_offsets_of_a_group_are_told_once() -> None:
    """1,000 times a group with 1,000 offsets held the event loop for seconds."""
    broker = group_broker()
    assert commit(broker).topics[0].partitions[0].error_code == 0
    wanted = [{"group_id": name, "topics": None} for name in ("g", "h", "g", "g")]
    answer = broker.call("offset_fetch", 8, groups=wanted)
    told = [(each.group_id, each.error_code, len(each.topics)) for each in answer.groups]
    refused = ("g", ErrorCode.INVALID_REQUEST, 0)
    assert told == [("g", 0, 1), ("h", 0, 0), refused, refused]


@pytest.mark.parametrize("version", [7, 8])
def test_an_offset_is_told_once(version: int) -> None:
    """Its metadata are larger than its partition in the request."""
    broker = group_broker()
    commit(broker)
    topics = [{"name": "t", "partition_indexes": indexes} for indexes in ([0, 0, 1], [1, 0])]
    group = {"group_id": "g", "topics": topics}
    answer = broker.call("offset_fetch", version, **(group if version < 8 else {"groups": [group]}))
    told = answer.topics if version < 8 else answer.groups[0].topics
    assert [[each.partition_index for each in topic.partitions] for topic in told] == [[0, 1], []]


def test_an_offset_is_deleted_once() -> None:
    broker = group_broker()
    commit(broker)
    topics = [{"name": "t", "partitions": [{"partition_index": 0}] * 3}] * 2
    (topic,) = broker.call("offset_delete", group_id="g", topics=topics).topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [(0, 0)]


def test_a_marker_is_written_once(broker: FakeBroker) -> None:
    """An administrator's is always written, and one request could write 90,000 of them."""
    broker.create("t")
    marker = {
        "producer_id": 7, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0,
        "topics": [{"name": "t", "partition_indexes": [0, 0, 0]}],
    }  # fmt: skip
    (told,) = broker.call("write_txn_markers", 1, markers=[marker]).markers
    assert {each.error_code for each in told.topics[0].partitions} == {0}
    assert broker.partition("t", 0).log.end_offset == 1


def encoded(api_key: int, values: dict[str, object]) -> memoryview:
    schema, sink = load_request_schema(api_key, SERVED[api_key].newest), BytesIO()
    entity_writer(schema)(sink, entity_builder(schema)(values))
    return memoryview(sink.getvalue())


@pytest.mark.parametrize("more", [0, 1])
def test_arrays_are_counted_together(more: int) -> None:
    part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": "t", "partitions": [part] * (FEW // 2 - 1)}] * 2
    topics += [{"name": "t", "partitions": []}] * more
    frame = encoded(LIST_OFFSETS, {"replica_id": -1, "topics": topics})
    version = SERVED[LIST_OFFSETS].newest
    if more:
        with pytest.raises(Malformed, match="too many elements"):
            messages.decode(LIST_OFFSETS, version, frame, 0, elements_max=FEW)
    else:
        assert len(messages.decode(LIST_OFFSETS, version, frame, 0, elements_max=FEW).topics) == 2


def test_a_client_has_a_limit() -> None:
    """A count is enough: nothing behind it is looked at."""
    frame = memoryview(INT32.pack(-1) + b"\0" + INT32.pack(ELEMENTS_MAX + 1) + bytes(ELEMENTS_MAX + 1))
    with pytest.raises(Malformed, match="too many elements"):
        messages.decode(LIST_OFFSETS, 2, frame, 0)


def test_strings_count() -> None:
    frame = encoded(FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": ["g"] * (FEW + 1)})
    with pytest.raises(Malformed, match="too many elements"):
        messages.decode(FIND_COORDINATOR, SERVED[FIND_COORDINATOR].newest, frame, 0, elements_max=FEW)


def test_a_fetch_and_a_produce_are_counted_too() -> None:
    partitions = ELEMENTS_MAX
    topic = INT32.pack(1) + b"\0\1t" + INT32.pack(partitions)
    head = INT32.pack(-1) + INT32.pack(0) + INT32.pack(1) + INT32.pack(1 << 20) + b"\0"
    with pytest.raises(Malformed, match="too many partitions"):
        fetch.decode(memoryview(head + topic + bytes(16 * partitions)), 0, 4)
    with pytest.raises(Malformed, match="too many partitions"):
        produce.decode(memoryview(b"\xff\xff" + bytes(6) + topic + bytes(8 * partitions)), 0, 3)
