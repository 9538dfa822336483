"""Markers that are written here: offsets of a transaction count with its marker."""

import pytest

from tidelog.broker.coordinators.marking import write_marker
from tidelog.errors import ErrorCode
from tidelog.groups.offsets import Committed
from tidelog.groups.shard import GroupShard
from tidelog.protocol.markers import Marker
from tidelog.types import TopicPartition
from unit.broker.fakes import FakeBroker


class TestOffsetsOfATransaction:
    """Offsets that were sent as part of a transaction count with its marker, and with no other."""

    PLACE = TopicPartition("__consumer_offsets", 0)

    @pytest.fixture
    def broker(self) -> FakeBroker:
        broker = FakeBroker()
        broker.create("t")
        broker.create("__consumer_offsets", 1)
        broker.services.settle()
        return broker

    def groups(self, broker: FakeBroker) -> GroupShard:
        return broker.broker.coordinators.groups.machine_of("g").groups

    def send(self, broker: FakeBroker, offset: int) -> None:
        self.groups(broker).offsets.commit_pending(7, "g", "t", 0, Committed(offset, -1, "", 0))

    def found(self, broker: FakeBroker) -> int | None:
        committed = self.groups(broker).offsets.get("g", "t", 0)
        return None if committed is None else committed.offset

    def mark(self, broker: FakeBroker, marker: Marker, epoch: int = 0, version: int = 0) -> list[ErrorCode]:
        told: list[ErrorCode] = []
        write_marker(
            broker.broker, broker.broker.coordinators.of, self.PLACE, 7, epoch, marker, version, told.append
        )
        broker.services.settle()
        return told

    @pytest.mark.parametrize("version", [0, 2])
    @pytest.mark.parametrize("commits", [True, False])
    def test_a_late_copy_leaves_those_of_the_next_one_alone(
        self, broker: FakeBroker, commits: bool, version: int
    ) -> None:
        epoch = 1 if version else 0
        marker = Marker(commits, 0, 10)
        self.send(broker, 5)
        assert self.mark(broker, marker, epoch, version) == [ErrorCode.NONE]
        before = 5 if commits else None
        assert self.found(broker) == before
        self.send(broker, 6)
        assert self.mark(broker, marker, epoch, version) == [ErrorCode.NONE]
        assert self.found(broker) == before
        assert self.groups(broker).offsets.is_pending("g", "t", 0)

    def test_a_marker_that_is_not_acknowledged_is_read_from_the_log(self, broker: FakeBroker) -> None:
        """It may be committed yet, and a copy would not be written."""
        before = self.groups(broker)
        broker.broker.coordinators.groups.load_again(0)
        broker.services.settle()
        assert self.groups(broker) is not before
