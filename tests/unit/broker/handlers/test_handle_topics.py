"""Creating, growing, deleting and listing topics, as clients ask for it at every version."""

from typing import Any

import pytest
from fakes import FakeBroker, records, value_of

from tidelog.broker.partitions.opening_queue import PARTITIONS_PER_SLICE
from tidelog.errors import ErrorCode, StorageError


def versions(oldest: int, newest: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(oldest, newest + 1))


def new(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def codes(answers: Any) -> list[tuple[str | None, int]]:
    return [(each.name, each.error_code) for each in answers]


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


class TestDelete:
    @versions(1, 5)
    def test_by_name(self, broker: FakeBroker, version: int) -> None:
        broker.create("a")
        answer = broker.call("delete_topics", version, topic_names=["a", "b"])
        assert codes(answer.responses) == [("a", 0), ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert set(broker.store.image.topics) == set()

    def test_by_name_or_id(self, broker: FakeBroker) -> None:
        first, second = broker.create("a"), broker.create("b")
        topics = [{"name": "a"}, {"name": None, "topic_id": second}]
        answer = broker.call("delete_topics", 6, topics=topics)
        assert [(each.name, each.topic_id) for each in answer.responses] == [("a", first), ("b", second)]
        assert {each.error_code for each in answer.responses} == {0}
        assert len(broker.partitions) == 0

    def test_an_unknown_id(self, broker: FakeBroker) -> None:
        unknown = broker.services.new_uuid()
        (answer,) = broker.call("delete_topics", 6, topics=[{"name": None, "topic_id": unknown}]).responses
        assert (answer.name, answer.topic_id, answer.error_code) == (
            None,
            unknown,
            ErrorCode.UNKNOWN_TOPIC_ID,
        )

    def test_both_or_neither(self, broker: FakeBroker) -> None:
        topic_id = broker.create("a")
        topics = [{"name": "a", "topic_id": topic_id}, {"name": None, "topic_id": None}]
        answer = broker.call("delete_topics", 6, topics=topics)
        assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert set(broker.store.image.topics) == {"a"}

    def test_named_twice_in_a_request(self, broker: FakeBroker) -> None:
        topic_id = broker.create("a")
        for topics in (
            [{"name": "a"}, {"name": "a"}],
            [{"name": "a"}, {"name": None, "topic_id": topic_id}],
        ):
            answer = broker.call("delete_topics", 6, topics=topics)
            assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert set(broker.store.image.topics) == {"a"}

    def test_an_id_never_deletes_a_new_topic_of_the_name(self, broker: FakeBroker) -> None:
        old = broker.create("a")
        broker.store.held = True
        by_name = broker.begin("delete_topics", 6, topics=[{"name": "a"}])
        again = broker.begin("create_topics", topics=[new("a")])
        by_id = broker.begin("delete_topics", 6, topics=[{"name": None, "topic_id": old}])
        broker.store.commit()
        broker.services.settle()
        assert by_name.is_complete
        assert again.is_complete
        assert by_id.is_complete
        assert set(broker.store.image.topics) == {"a"}
        assert broker.topic_id("a") != old

    def test_where_it_is_not_allowed(self) -> None:
        broker = FakeBroker(delete_topic_enable=False)
        broker.create("a")
        answer = broker.call("delete_topics", topics=[{"name": "a"}])
        assert codes(answer.responses) == [("a", ErrorCode.TOPIC_DELETION_DISABLED)]


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


class TestMetadata:
    @versions(0, 13)
    def test_of_a_topic(self, broker: FakeBroker, version: int) -> None:
        topic_id = broker.create("a", 2)
        answer = broker.call("metadata", version, topics=[{"name": "a"}])
        (node,) = answer.brokers
        assert (node.node_id, node.host, node.port) == (1, "localhost", 9092)
        (topic,) = answer.topics
        assert (topic.name, topic.error_code) == ("a", 0)
        first, second = topic.partitions
        assert (first.partition_index, first.leader_id, first.replica_nodes) == (0, 1, (1,))
        assert (second.partition_index, second.isr_nodes, second.error_code) == (1, (1,), 0)
        assert getattr(answer, "cluster_id", "cluster") == "cluster"
        assert getattr(answer, "controller_id", 1) == 1
        assert getattr(topic, "topic_id", topic_id) == topic_id
        assert getattr(first, "leader_epoch", 0) == 0

    def test_of_all_topics(self, broker: FakeBroker) -> None:
        broker.create("a")
        broker.create("b")
        nothing: list[Any] = []
        for version, topics in [(0, nothing), (1, None), (12, None)]:
            answer = broker.call("metadata", version, topics=topics)
            assert codes(answer.topics) == [("a", 0), ("b", 0)]

    @versions(1, 13)
    def test_of_none(self, broker: FakeBroker, version: int) -> None:
        broker.create("a")
        answer = broker.call("metadata", version, topics=[])
        assert (answer.topics, len(answer.brokers)) == ((), 1)

    def test_by_id(self, broker: FakeBroker) -> None:
        topic_id, unknown = broker.create("a"), broker.services.new_uuid()
        topics = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": unknown}, {"name": None}]
        answer = broker.call("metadata", 12, topics=topics)
        assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [
            ("a", topic_id, 0),
            (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
            (None, None, ErrorCode.UNKNOWN_TOPIC_ID),
        ]

    @versions(10, 11)
    def test_by_id_in_versions_whose_answer_must_name_every_topic(
        self, broker: FakeBroker, version: int
    ) -> None:
        topic_id = broker.create("a")
        answer = broker.call("metadata", version, topics=[{"name": None, "topic_id": topic_id}])
        assert codes(answer.topics) == [("", ErrorCode.INVALID_REQUEST)]

    def test_a_partition_whose_replicas_are_elsewhere(self, broker: FakeBroker) -> None:
        from tidelog.controller.records import TopicCreated

        broker.submit(TopicCreated("remote", broker.services.new_uuid(), [[7, 1]], {}))
        (topic,) = broker.call("metadata", 12, topics=[{"name": "remote"}]).topics
        (partition,) = topic.partitions
        assert (partition.leader_id, partition.offline_replicas) == (7, (7,))


class TestAutoCreation:
    @versions(0, 13)
    def test_a_missing_topic_is_made(self, version: int) -> None:
        broker = FakeBroker(num_partitions=2)
        answer = broker.call("metadata", version, topics=[{"name": "a"}], allow_auto_topic_creation=True)
        (topic,) = answer.topics
        assert (topic.name, topic.error_code, len(topic.partitions)) == ("a", 0, 2)
        assert broker.append("a", b"x").error_code == 0

    @versions(4, 13)
    def test_not_where_the_client_says_no(self, broker: FakeBroker, version: int) -> None:
        answer = broker.call("metadata", version, topics=[{"name": "a"}], allow_auto_topic_creation=False)
        assert codes(answer.topics) == [("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert not broker.store.image.topics

    def test_not_where_the_broker_says_no(self) -> None:
        broker = FakeBroker(auto_create_topics_enable=False)
        answer = broker.call("metadata", topics=[{"name": "a"}], allow_auto_topic_creation=True)
        assert codes(answer.topics) == [("a", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]

    @pytest.mark.parametrize("allowed", [True, False])
    def test_names_that_cannot_be(self, broker: FakeBroker, allowed: bool) -> None:
        topics = [{"name": "a b"}, {"name": ""}, {"name": "__cluster_metadata"}]
        answer = broker.call("metadata", topics=topics, allow_auto_topic_creation=allowed)
        assert {each.error_code for each in answer.topics} == {ErrorCode.INVALID_TOPIC_EXCEPTION}

    def test_a_small_cluster_makes_as_many_copies_as_it_can(self) -> None:
        broker = FakeBroker(default_replication_factor=3)
        answer = broker.call("metadata", topics=[{"name": "a"}], allow_auto_topic_creation=True)
        assert codes(answer.topics) == [("a", 0)]
        assert answer.topics[0].partitions[0].replica_nodes == (1,)

    def test_named_twice(self, broker: FakeBroker) -> None:
        topics = [{"name": "a"}, {"name": "a"}]
        answer = broker.call("metadata", topics=topics, allow_auto_topic_creation=True)
        assert codes(answer.topics) == [("a", 0)]

    def test_two_clients_at_once(self, broker: FakeBroker) -> None:
        """It is made once; whoever comes second may have to ask again."""
        broker.store.held = True
        futures = [
            broker.begin("metadata", topics=[{"name": "a"}], allow_auto_topic_creation=True) for _ in range(2)
        ]
        broker.services.settle()
        broker.store.commit()
        broker.services.advance(10)
        first, second = (value_of(future).topics[0].error_code for future in futures)
        assert first == 0
        assert second == 0 or ErrorCode(second).retriable
        assert len(broker.partitions) == 1


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
