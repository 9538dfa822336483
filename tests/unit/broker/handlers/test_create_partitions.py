"""CreatePartitions: topics that grow."""

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker
from unit.broker.handlers.topic_requests import codes, versions


class TestCreatePartitions:
    def test_a_request_for_too_many_is_refused_whole(self, broker: FakeBroker) -> None:
        broker.create("a", 2)
        wanted = [{"name": "a", "count": 10_003, "assignments": None}]
        (refused,) = broker.call("create_partitions", topics=wanted).results
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        assert len(broker.store.image.topics["a"].partitions) == 2

    @versions(0, 3)
    def test_grows(self, broker: FakeBroker, version: int) -> None:
        broker.create("a")
        broker.create("b")
        topics = [{"name": "a", "count": 3}, {"name": "b", "count": 1}, {"name": "c", "count": 2}]
        answer = broker.call("create_partitions", version, topics=topics)
        assert codes(answer.results) == [
            ("a", 0),
            ("b", ErrorCode.INVALID_PARTITIONS),
            ("c", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert broker.partition("a", 2).log.end_offset == 0

    def test_manual(self, broker: FakeBroker) -> None:
        broker.create("a")
        for assignments, code in [
            ([{"broker_ids": [9]}], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([{"broker_ids": [1]}], ErrorCode.NONE),
        ]:
            topics = [{"name": "a", "count": 2, "assignments": assignments}]
            assert codes(broker.call("create_partitions", topics=topics).results) == [("a", code)]

    def test_only_to_see_whether_it_would_work(self, broker: FakeBroker) -> None:
        broker.create("a")
        topics = [{"name": "a", "count": 2}]
        assert codes(broker.call("create_partitions", topics=topics, validate_only=True).results) == [
            ("a", 0)
        ]
        assert len(broker.store.image.topics["a"].partitions) == 1

    def test_named_twice_in_a_request(self, broker: FakeBroker) -> None:
        broker.create("a")
        topics = [{"name": "a", "count": 2}, {"name": "a", "count": 3}]
        assert codes(broker.call("create_partitions", topics=topics).results) == [
            ("a", ErrorCode.INVALID_REQUEST)
        ]
