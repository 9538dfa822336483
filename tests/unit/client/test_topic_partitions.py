"""DescribeTopicPartitions by hand, compared with the schemas."""

from uuid import UUID

from tidelog.client.topic_partitions import PartitionSeen, joined, parse, request
from tidelog.errors import ErrorCode
from tidelog.protocol import requests
from tidelog.protocol.messages import decode, encode

API = 75


def test_a_request_with_a_cursor() -> None:
    body = request(("orders", 7), 100)
    found = decode(API, 0, memoryview(body), 0)
    assert (found.response_partition_limit, found.topics) == (100, ())
    assert (found.cursor.topic_name, found.cursor.partition_index) == ("orders", 7)
    assert decode(API, 0, memoryview(request(None)), 0).cursor is None


def test_a_response() -> None:
    partition = {
        "partition_index": 0, "leader_id": 2, "leader_epoch": 5,
        "replica_nodes": [1, 2, 3], "isr_nodes": [2, 3],
        "eligible_leader_replicas": [1], "last_known_elr": [], "offline_replicas": [1],
    }  # fmt: skip
    response = {
        "topics": [
            {"name": "orders", "topic_id": UUID(int=5), "is_internal": False, "partitions": [partition]},
            {"name": "gone", "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "partitions": []},
        ],
        "next_cursor": {"topic_name": "payments", "partition_index": 2},
    }
    frame = memoryview(encode(API, 0, 1, response))[9:]  # behind size, correlation id and tags
    topics, cursor = parse(frame)
    assert cursor == ("payments", 2)
    assert topics.keys() == {"orders"}
    assert topics["orders"].partitions == (PartitionSeen(2, 5, (1, 2, 3), (2, 3), (1,), (1,)),)
    assert requests.decode_body(API, frame).next_cursor.partition_index == 2


def test_a_topic_on_two_pages() -> None:
    first = parse(memoryview(encode(API, 0, 1, _page(0)))[9:])[0]
    second = parse(memoryview(encode(API, 0, 1, _page(1)))[9:])[0]
    assert len(joined([first, second])["orders"].partitions) == 2


def _page(index: int) -> dict[str, object]:
    partition = {"partition_index": index, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
    return {"topics": [{"name": "orders", "topic_id": UUID(int=5), "partitions": [partition]}]}
