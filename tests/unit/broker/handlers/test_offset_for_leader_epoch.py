"""OffsetForLeaderEpoch: where epochs end."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode
from tidelog.replication.attachments.successors import Successors
from unit.broker.fakes import FakeBroker


class TestLeaderEpochs:
    def end_of(self, broker: FakeBroker, epoch: int, version: int = 4, **more: Any) -> tuple[int, int, int]:
        partition = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch, **more}
        topics = [{"topic": more.pop("topic", "orders"), "partitions": [partition]}]
        answer = broker.call("offset_for_leader_epoch", version, replica_id=-1, topics=topics)
        found = answer.topics[0].partitions[0]
        return found.error_code, found.leader_epoch, found.end_offset

    @pytest.mark.parametrize("version", range(2, 5))
    def test_the_present_one_ends_where_the_log_ends(self, orders: FakeBroker, version: int) -> None:
        assert self.end_of(orders, 0, version) == (0, 0, 4)

    def test_of_an_empty_log(self, broker: FakeBroker) -> None:
        broker.create("orders")
        assert self.end_of(broker, 0) == (0, 0, 0)

    def test_an_epoch_that_never_was(self, orders: FakeBroker) -> None:
        assert self.end_of(orders, 5) == (0, -1, -1)

    @pytest.mark.parametrize("follow", [True, False])
    def test_followers_are_asked_about_a_later_one(
        self, orders: FakeBroker, monkeypatch: pytest.MonkeyPatch, follow: bool
    ) -> None:
        """A member may lead by now, and have written it."""
        monkeypatch.setattr(Successors, "are_members", True)
        monkeypatch.setattr(Successors, "when_members_follow", lambda self, then: then(follow))
        assert self.end_of(orders, 5) == (0 if follow else ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
        assert self.end_of(orders, 0) == (0, 0, 4)

    def test_an_earlier_one_ends_where_the_next_began(self, orders: FakeBroker) -> None:
        orders.partition("orders").driver.lead(3, (1,), (1,), 1)
        orders.append("orders", b"e")
        assert self.end_of(orders, 0) == (0, 0, 4)
        assert self.end_of(orders, 2) == (0, 0, 4)
        assert self.end_of(orders, 3) == (0, 3, 5)
        assert self.end_of(orders, 0, current_leader_epoch=2)[0] == ErrorCode.FENCED_LEADER_EPOCH

    def test_unknown_partitions(self, orders: FakeBroker) -> None:
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
        assert self.end_of(orders, 0, topic="bills") == unknown
        assert self.end_of(orders, 0, partition=9) == unknown
