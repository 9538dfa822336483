"""DescribeProducers: who has written here."""

from typing import Any

from tidelog.errors import ErrorCode
from unit.broker.fakes import NOW_MS, FakeBroker, records
from unit.broker.handlers.idempotent_producers import produce, sent


class TestDescribing:
    def describe(self, broker: FakeBroker, topic: str, index: int = 0) -> Any:
        topics = [{"name": topic, "partition_indexes": [index]}]
        (found,) = broker.call("describe_producers", topics=topics).topics
        return found.partitions[0]

    def test_who_writes_here(self, broker: FakeBroker) -> None:
        broker.create("t")
        produce(broker, records(b"nobody"))
        produce(broker, sent(b"a", b"b", producer=(7, 3, 0)))
        broker.services.advance(10)
        produce(broker, sent(b"a", producer=(9, 0, 4)))
        found = self.describe(broker, "t")
        assert found.error_code == 0
        told = [
            (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
            for each in found.active_producers
        ]
        assert told == [(7, 3, 1, NOW_MS), (9, 0, 4, NOW_MS + 10)]

    def test_silent_ones_are_not_told(self, broker: FakeBroker) -> None:
        broker.create("t")
        produce(broker, sent(b"a"))
        broker.services.advance(86_400_000)
        assert self.describe(broker, "t").active_producers == ()

    def test_unknown_partitions(self, broker: FakeBroker) -> None:
        broker.create("t")
        for topic, index in (("t", 1), ("nowhere", 0)):
            found = self.describe(broker, topic, index)
            assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
