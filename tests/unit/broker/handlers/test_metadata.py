"""Metadata at every version, and the topics that it creates."""

from typing import Any

import pytest

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker, value_of
from unit.broker.handlers.topic_requests import codes, versions


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

    def test_one_request_does_not_make_any_number_of_topics(self) -> None:
        broker = FakeBroker(num_partitions=100)
        topics = [{"name": f"t{number}"} for number in range(101)]
        answer = broker.call("metadata", topics=topics, allow_auto_topic_creation=True)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}
        assert broker.store.image.topics == {}

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
