"""CreateTopics, as clients ask for it at every version."""

from typing import Any

import pytest

from tidelog.broker.partitions.opening_queue import PARTITIONS_PER_SLICE
from tidelog.errors import ErrorCode, StorageError
from unit.broker.fakes import FakeBroker, records
from unit.broker.handlers.topic_requests import codes, new, versions


class TestCreate:
    @versions(2, 7)
    def test_several_at_once(self, broker: FakeBroker, version: int) -> None:
        answer = broker.call("create_topics", version, topics=[new("a", 2), new("b", replicas=3), new("a b")])
        assert codes(answer.topics) == [
            ("a", 0),
            ("b", ErrorCode.INVALID_REPLICATION_FACTOR),
            ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
        assert set(broker.store.image.topics) == {"a"}
        if version >= 5:
            made, refused, _ = answer.topics
            assert (made.num_partitions, made.replication_factor, made.error_message) == (2, 1, None)
            assert (refused.num_partitions, refused.configs) == (-1, None)
            assert "larger than the number of brokers" in refused.error_message
        if version >= 7:
            assert answer.topics[0].topic_id == broker.topic_id("a")

    @pytest.mark.parametrize("validate_only", [False, True])
    def test_a_request_for_too_many_partitions_is_refused_whole(
        self, broker: FakeBroker, validate_only: bool
    ) -> None:
        topics = [new("a", 5000), new("b", 5001)]
        answer = broker.call("create_topics", 7, topics=topics, validate_only=validate_only)
        assert codes(answer.topics) == [("a", ErrorCode.POLICY_VIOLATION), ("b", ErrorCode.POLICY_VIOLATION)]
        assert "10,000" in answer.topics[0].error_message
        assert broker.store.image.topics == {}

    def test_settings_in_force_are_told(self, broker: FakeBroker) -> None:
        configs = [{"name": "retention.ms", "value": "5"}]
        (made,) = broker.call("create_topics", 7, topics=[new("a", configs=configs)]).topics
        found = {config.name: (config.value, config.config_source) for config in made.configs}
        assert found["retention.ms"] == ("5", 1)
        assert found["segment.bytes"] == (str(1 << 30), 5)
        assert broker.store.image.topics["a"].configs == {"retention.ms": "5"}

    def test_it_can_be_written_to_when_the_client_hears_of_it(self, broker: FakeBroker) -> None:
        count = PARTITIONS_PER_SLICE + 1
        future = broker.begin("create_topics", topics=[new("a", count)])
        before = future.is_complete
        broker.services.settle()
        assert (before, future.is_complete) == (False, True)
        sent = broker.produce(("a", count - 1, records(b"x")))
        assert sent[0].responses[0].partition_responses[0].error_code == 0

    def test_defaults(self) -> None:
        broker = FakeBroker(num_partitions=4)
        (made,) = broker.call("create_topics", topics=[new("a", -1, -1)]).topics
        assert (made.num_partitions, made.replication_factor) == (4, 1)

    def test_manual_assignment(self, broker: FakeBroker) -> None:
        placed = [{"partition_index": index, "broker_ids": [1]} for index in (1, 0)]
        (made,) = broker.call("create_topics", topics=[new("a", -1, -1, assignments=placed)]).topics
        assert (made.error_code, made.num_partitions, made.replication_factor) == (0, 2, 1)

    @pytest.mark.parametrize(
        "assignments",
        [
            [{"partition_index": 0, "broker_ids": [1]}] * 2,
            [{"partition_index": 1, "broker_ids": [1]}],
            [{"partition_index": 0, "broker_ids": [2]}],
            [{"partition_index": 0, "broker_ids": []}],
        ],
    )
    def test_assignments_that_cannot_be(self, broker: FakeBroker, assignments: list[Any]) -> None:
        answer = broker.call("create_topics", topics=[new("a", -1, -1, assignments=assignments)])
        assert codes(answer.topics) == [("a", ErrorCode.INVALID_REPLICA_ASSIGNMENT)]

    def test_a_setting_without_a_value(self, broker: FakeBroker) -> None:
        configs = [{"name": "retention.ms", "value": None}]
        answer = broker.call("create_topics", topics=[new("a", configs=configs)])
        assert codes(answer.topics) == [("a", ErrorCode.INVALID_CONFIG)]

    def test_named_twice_in_a_request(self, broker: FakeBroker) -> None:
        answer = broker.call("create_topics", topics=[new("a"), new("b"), new("a", 3)])
        assert codes(answer.topics) == [("a", ErrorCode.INVALID_REQUEST), ("b", 0)]
        assert set(broker.store.image.topics) == {"b"}

    def test_existing(self, broker: FakeBroker) -> None:
        broker.create("a")
        assert codes(broker.call("create_topics", topics=[new("a")]).topics) == [
            ("a", ErrorCode.TOPIC_ALREADY_EXISTS)
        ]

    def test_two_requests_for_one_name_while_the_disk_is_busy(self, broker: FakeBroker) -> None:
        broker.store.held = True
        first, second = (broker.begin("create_topics", topics=[new("a")]) for _ in range(2))
        broker.services.settle()
        assert not first.is_complete
        assert second.is_complete
        broker.store.commit()
        broker.services.settle()
        assert first.is_complete

    def test_only_to_see_whether_it_would_work(self, broker: FakeBroker) -> None:
        broker.create("old")
        topics = [new("a", 3, configs=[{"name": "retention.ms", "value": "5"}]), new("old"), new("b", 0)]
        answer = broker.call("create_topics", topics=topics, validate_only=True)
        assert codes(answer.topics) == [
            ("a", 0),
            ("old", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("b", ErrorCode.INVALID_PARTITIONS),
        ]
        would = answer.topics[0]
        assert (would.num_partitions, would.replication_factor, would.topic_id) == (3, 1, None)
        assert ("retention.ms", "5") in [(config.name, config.value) for config in would.configs]
        assert set(broker.store.image.topics) == {"old"}

    def test_a_metadata_log_that_failed(self, broker: FakeBroker) -> None:
        broker.store.failure = StorageError("the disk is gone")
        assert codes(broker.call("create_topics", topics=[new("a")]).topics) == [
            ("a", ErrorCode.KAFKA_STORAGE_ERROR)
        ]

    def test_nothing(self, broker: FakeBroker) -> None:
        assert broker.call("create_topics", topics=[]).topics == ()
