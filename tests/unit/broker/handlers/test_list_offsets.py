"""ListOffsets: first, last and by time."""

from typing import Any
from uuid import UUID

import pytest

from tidelog.controller.records import PartitionChanged, TopicCreated
from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, NOW_MS, FakeBroker, records

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6


class TestListOffsets:
    def look_up(self, broker: FakeBroker, timestamp: int, version: int = 8, **more: Any) -> Any:
        partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1, **more}
        topics = [{"name": more.pop("topic", "orders"), "partitions": [partition]}]
        answer = broker.call("list_offsets", version, replica_id=-1, topics=topics)
        return answer.topics[0].partitions[0]

    def found(self, broker: FakeBroker, timestamp: int, version: int = 8) -> tuple[int, int, int]:
        partition = self.look_up(broker, timestamp, version)
        return partition.error_code, partition.offset, partition.timestamp

    @pytest.mark.parametrize("version", range(1, 12))
    def test_first_and_last(self, orders: FakeBroker, version: int) -> None:
        assert self.found(orders, EARLIEST, version) == (0, 0, -1)
        assert self.found(orders, LATEST, version) == (0, 4, -1)
        orders.partition("orders").delete_records(2)
        assert self.found(orders, EARLIEST, version) == (0, 2, -1)

    @pytest.mark.parametrize("version", range(1, 12))
    @pytest.mark.parametrize(
        ("timestamp", "offset", "at_ms"),
        [
            (0, 0, NOW_MS - 200),
            (NOW_MS - 200, 0, NOW_MS - 200),
            (NOW_MS - 199, 2, NOW_MS),
            (NOW_MS, 2, NOW_MS),
            (NOW_MS + 1, -1, -1),
        ],
    )
    def test_by_time(self, orders: FakeBroker, version: int, timestamp: int, offset: int, at_ms: int) -> None:
        assert self.found(orders, timestamp, version) == (0, offset, at_ms)

    def test_special_timestamps(self, orders: FakeBroker) -> None:
        assert self.found(orders, NEWEST) == (0, 2, NOW_MS)
        assert self.found(orders, EARLIEST_LOCAL) == (0, 0, -1)
        assert self.found(orders, TIERED, 9) == (0, -1, -1)
        assert self.found(orders, PENDING, 11) == (0, -1, -1)

    @pytest.mark.parametrize(
        ("timestamp", "version"), [(NEWEST, 6), (EARLIEST_LOCAL, 7), (TIERED, 8), (PENDING, 10), (-7, 11)]
    )
    def test_special_timestamps_before_their_time(
        self, orders: FakeBroker, timestamp: int, version: int
    ) -> None:
        assert self.found(orders, timestamp, version) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)

    def test_of_an_empty_log(self, broker: FakeBroker) -> None:
        broker.create("orders")
        assert self.found(broker, EARLIEST) == (0, 0, -1)
        assert self.found(broker, LATEST) == (0, 0, -1)
        assert self.found(broker, NEWEST) == (0, -1, -1)
        assert self.found(broker, 5) == (0, -1, -1)

    def test_epochs_are_told(self, orders: FakeBroker) -> None:
        for timestamp in (EARLIEST, LATEST, NEWEST, NOW_MS):
            assert self.look_up(orders, timestamp).leader_epoch == 0

    def test_a_new_leader_does_not_take_the_end_back(self, broker: FakeBroker) -> None:
        topic_id = UUID(int=7)
        alone = {"min.insync.replicas": "1"}
        broker.submit(TopicCreated("orders", topic_id, [[ME, 7]], alone))
        broker.produce(("orders", 0, records(b"a")), acks=1)
        assert self.found(broker, LATEST) == (0, 0, -1)
        broker.submit(PartitionChanged(topic_id, 0, ME, 1, [ME, 7], [], ME))
        assert self.look_up(broker, LATEST).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert self.look_up(broker, NOW_MS).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert self.look_up(broker, LATEST, 4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert self.found(broker, EARLIEST) == (0, 0, -1)
        broker.submit(PartitionChanged(topic_id, 0, ME, 1, [ME], [], ME))
        assert self.found(broker, LATEST) == (0, 1, -1)

    def test_what_is_known_is_told_where_more_will_not_be_known_for_long(self, broker: FakeBroker) -> None:
        topic_id = UUID(int=7)
        broker.submit(TopicCreated("orders", topic_id, [[ME, 7]], {"min.insync.replicas": "2"}))
        broker.produce(("orders", 0, records(b"a")), acks=1)
        broker.submit(PartitionChanged(topic_id, 0, ME, 1, [ME], [7], ME))
        assert self.found(broker, LATEST) == (0, 0, -1)

    def test_nothing_that_is_not_committed(self, broker: FakeBroker) -> None:
        broker.create("orders", flush_messages=1)
        broker.append("orders", b"a")
        broker.services.held = True
        broker.produce(("orders", 0, records(b"b", at_ms=NOW_MS + 5)))
        assert self.found(broker, LATEST) == (0, 1, -1)
        assert self.found(broker, NOW_MS + 5) == (0, -1, -1)
        assert self.found(broker, NEWEST) == (0, 0, NOW_MS)

    @pytest.mark.parametrize(
        ("more", "code"),
        [
            ({"topic": "bills"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"partition_index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"partition_index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ],
    )
    def test_refusals(self, orders: FakeBroker, more: dict[str, Any], code: ErrorCode) -> None:
        found = self.look_up(orders, LATEST, **more)
        assert (found.error_code, found.offset, found.timestamp) == (code, -1, -1)
