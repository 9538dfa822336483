"""DeleteRecords: a log that begins later."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker


class TestDeleteRecords:
    def delete(self, broker: FakeBroker, offset: int, version: int = 2, **more: Any) -> tuple[int, int]:
        topics = [
            {"name": more.get("topic", "orders"), "partitions": [{"partition_index": 0, "offset": offset}]}
        ]
        answer = broker.call("delete_records", version, topics=topics)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.low_watermark

    @pytest.mark.parametrize("version", range(3))
    def test_the_log_begins_later(self, orders: FakeBroker, version: int) -> None:
        assert self.delete(orders, 2, version) == (0, 2)
        assert self.delete(orders, 1, version) == (0, 2)
        assert self.delete(orders, -1, version) == (0, 4)

    @pytest.mark.parametrize("offset", [5, -2])
    def test_not_outside_of_the_log(self, orders: FakeBroker, offset: int) -> None:
        assert self.delete(orders, offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    def test_unknown(self, orders: FakeBroker) -> None:
        assert self.delete(orders, 1, topic="bills") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)

    def test_a_compacted_topic(self, broker: FakeBroker) -> None:
        broker.create("orders", cleanup_policy="compact")
        assert self.delete(broker, 0) == (ErrorCode.POLICY_VIOLATION, -1)
