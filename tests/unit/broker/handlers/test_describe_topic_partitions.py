"""DescribeTopicPartitions: pages in order, and every partition once."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker
from unit.broker.handlers.topic_requests import codes


class TestDescribeTopicPartitions:
    @pytest.fixture
    def three(self, broker: FakeBroker) -> FakeBroker:
        for name, count in [("b", 3), ("a", 2), ("c", 1)]:
            broker.create(name, count)
        return broker

    def page(self, broker: FakeBroker, limit: int = 100, cursor: Any = None, names: Any = ()) -> Any:
        return broker.call(
            "describe_topic_partitions",
            topics=[{"name": name} for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        )

    def shown(self, answer: Any) -> list[tuple[str, list[int]]]:
        return [
            (topic.name, [partition.partition_index for partition in topic.partitions])
            for topic in answer.topics
        ]

    def test_everything_in_order(self, three: FakeBroker) -> None:
        answer = self.page(three)
        assert self.shown(answer) == [("a", [0, 1]), ("b", [0, 1, 2]), ("c", [0])]
        assert answer.next_cursor is None
        assert answer.topics[0].topic_id == three.topic_id("a")

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
    def test_pages_hold_everything_once(self, three: FakeBroker, limit: int) -> None:
        seen: list[tuple[str, int]] = []
        cursor = None
        for _ in range(7):
            answer = self.page(three, limit, cursor)
            found = [(name, index) for name, indexes in self.shown(answer) for index in indexes]
            assert len(found) <= limit
            seen += found
            if answer.next_cursor is None:
                break
            cursor = {
                "topic_name": answer.next_cursor.topic_name,
                "partition_index": answer.next_cursor.partition_index,
            }
        assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]

    def test_a_cursor_whose_topic_was_deleted(self, three: FakeBroker) -> None:
        three.call("delete_topics", topics=[{"name": "b"}])
        answer = self.page(three, cursor={"topic_name": "b", "partition_index": 2})
        assert self.shown(answer) == [("c", [0])]

    def test_named_topics(self, three: FakeBroker) -> None:
        answer = self.page(three, names=["c", "x", "a", "c", "a b"])
        assert codes(answer.topics) == [
            ("a", 0),
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("c", 0),
            ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]

    @pytest.mark.parametrize("limit", [0, -5])
    def test_a_limit_that_is_none_still_gets_on(self, three: FakeBroker, limit: int) -> None:
        assert self.shown(self.page(three, limit)) == [("a", [0])]

    def test_the_brokers_limit(self) -> None:
        broker = FakeBroker(max_request_partition_size_limit=2)
        broker.create("a", 3)
        assert self.shown(self.page(broker, 1000)) == [("a", [0, 1])]

    def test_a_cursor_that_cannot_be(self, three: FakeBroker) -> None:
        answer = self.page(three, cursor={"topic_name": "b", "partition_index": -1})
        assert codes(answer.topics) == [("b", ErrorCode.INVALID_REQUEST)]

    def test_a_topic_that_is_deleted_between_two_pages(self, three: FakeBroker) -> None:
        """The next topic lost its first partitions."""
        first = self.page(three, 1, names=("a", "b"))
        assert self.shown(first) == [("a", [0])]
        three.call("delete_topics", topics=[{"name": "a"}])
        cursor = {"topic_name": first.next_cursor.topic_name, "partition_index": 1}
        second = self.page(three, cursor=cursor, names=("a", "b"))
        assert self.shown(second) == [("a", []), ("b", [0, 1, 2])]
