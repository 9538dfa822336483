"""What a broker says about itself and its topics: Metadata, DescribeCluster, log directories, partitions."""

import uuid

import kafka.admin
import pytest
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from . import calls
from .conftest import CreateTopic
from .records import batch
from .wire import Wire

pytestmark = pytest.mark.interop

NO_OPERATIONS = -(2**31)  # authorized operations that were not asked for


class TestMetadata:
    def test_the_broker_can_be_reached_where_it_says(self, wire: Wire, bootstrap: str) -> None:
        answer = wire.call("metadata", 12, topics=[])
        assert answer.topics == ()
        assert answer.cluster_id
        assert answer.controller_id in {broker.node_id for broker in answer.brokers}
        assert bootstrap in {f"{broker.host}:{broker.port}" for broker in answer.brokers}

    def test_all_topics(self, wire: Wire, create_topic: CreateTopic) -> None:
        names = {create_topic(), create_topic()}
        answer = wire.call("metadata", 12, topics=None)
        assert names <= {topic.name for topic in answer.topics}

    def test_version_0_means_all_topics_by_an_empty_list(self, wire: Wire, topic: str) -> None:
        assert topic in {each.name for each in wire.call("metadata", 0, topics=[]).topics}

    def test_partitions_with_leader_and_replicas(self, wire: Wire, create_topic: CreateTopic) -> None:
        found = calls.metadata(wire, create_topic(partitions=3))
        assert sorted(part.partition_index for part in found.partitions) == [0, 1, 2]
        for part in found.partitions:
            assert part.error_code is ErrorCode.none
            assert part.leader_epoch >= 0
            assert part.leader_id in part.replica_nodes
            assert part.isr_nodes == part.replica_nodes
            assert part.offline_replicas == ()

    def test_by_id(self, wire: Wire, topic: str) -> None:
        wanted = calls.topic_id(wire, topic)
        answer = wire.call("metadata", 12, topics=[{"name": None, "topic_id": wanted}])
        assert [(each.name, each.topic_id) for each in answer.topics] == [(topic, wanted)]

    def test_unknown_id(self, wire: Wire) -> None:
        answer = wire.call("metadata", 12, topics=[{"name": None, "topic_id": uuid.uuid4()}])
        assert answer.topics[0].error_code is ErrorCode.unknown_topic_id

    def test_ids_stay_the_same_for_every_asker(self, wire: Wire, topic: str, bootstrap: str) -> None:
        first = calls.topic_id(wire, topic)
        assert first.int != 0
        with Wire(bootstrap) as other:
            assert calls.topic_id(other, topic) == first


class TestDescribeCluster:
    def test_the_same_cluster_as_in_metadata(self, wire: Wire) -> None:
        known = wire.call("metadata", 12, topics=[])
        answer = wire.call("describe_cluster", 0)
        assert answer.error_code is ErrorCode.none
        assert answer.cluster_id == known.cluster_id
        assert {(b.broker_id, b.host, b.port) for b in answer.brokers} == {
            (b.node_id, b.host, b.port) for b in known.brokers
        }
        assert answer.cluster_authorized_operations == NO_OPERATIONS

    def test_unknown_endpoint_type(self, wire: Wire) -> None:
        answer = wire.call("describe_cluster", 1, endpoint_type=77)
        assert answer.error_code is ErrorCode.unsupported_endpoint_type

    def test_confluent(self, bootstrap: str, wire: Wire) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        described = admin.describe_cluster().result(30)
        assert described.cluster_id == wire.call("metadata", 12, topics=[]).cluster_id
        assert bootstrap in {f"{node.host}:{node.port}" for node in described.nodes}

    def test_kafka_python(self, bootstrap: str, wire: Wire) -> None:
        admin = kafka.admin.KafkaAdminClient(bootstrap_servers=bootstrap)
        try:
            assert admin.describe_cluster()["cluster_id"] == wire.call("metadata", 12, topics=[]).cluster_id
        finally:
            admin.close()


class TestDescribeLogDirs:
    def test_a_partition_grows_by_what_is_written(self, wire: Wire, topic: str) -> None:
        data = bytes(batch(b"x" * 10_000))
        for written in (0, 1, 2):
            answer = wire.call("describe_log_dirs", 4, topics=[{"topic": topic, "partitions": [0]}])
            (directory,) = answer.results
            assert directory.error_code is ErrorCode.none
            assert directory.log_dir
            assert directory.total_bytes > directory.usable_bytes > 0
            (partition,) = directory.topics[0].partitions
            assert (partition.partition_index, partition.partition_size) == (0, written * len(data))
            assert (partition.offset_lag, partition.is_future_key) == (0, False)
            calls.produce(wire, topic, data)

    def test_all_topics(self, wire: Wire, topic: str) -> None:
        (directory,) = wire.call("describe_log_dirs", 4, topics=None).results
        assert topic in {each.name for each in directory.topics}

    def test_an_unknown_topic_is_simply_not_there(self, wire: Wire) -> None:
        topics = [{"topic": "no-such-topic", "partitions": [0]}]
        (directory,) = wire.call("describe_log_dirs", 4, topics=topics).results
        assert directory.topics == ()


class TestDescribeTopicPartitions:
    def test_partitions_with_leader_and_replicas(self, wire: Wire, create_topic: CreateTopic) -> None:
        topic = create_topic(partitions=3)
        answer = wire.call("describe_topic_partitions", 0, topics=[{"name": topic}])
        (found,) = answer.topics
        assert (found.error_code, found.name) == (ErrorCode.none, topic)
        assert found.topic_id == calls.topic_id(wire, topic)
        assert [part.partition_index for part in found.partitions] == [0, 1, 2]
        assert all(part.leader_id in part.isr_nodes for part in found.partitions)
        # Null is allowed by the schema, but Kafka's Java client takes these two for granted.
        assert all(part.eligible_leader_replicas == () for part in found.partitions)
        assert all(part.last_known_elr == () for part in found.partitions)
        assert answer.next_cursor is None

    def test_page_by_page(self, wire: Wire, create_topic: CreateTopic) -> None:
        topics = sorted([create_topic(partitions=3), create_topic(partitions=3)])
        request = {"topics": [{"name": name} for name in topics], "response_partition_limit": 2}
        seen = []
        cursor = None
        for _ in range(10):
            answer = wire.call("describe_topic_partitions", 0, cursor=cursor, **request)
            page = [(each.name, part.partition_index) for each in answer.topics for part in each.partitions]
            assert len(page) <= 2
            seen += page
            if answer.next_cursor is None:
                break
            at = answer.next_cursor
            cursor = {"topic_name": at.topic_name, "partition_index": at.partition_index}
        assert seen == [(name, partition) for name in topics for partition in range(3)]

    def test_unknown_topic(self, wire: Wire) -> None:
        answer = wire.call("describe_topic_partitions", 0, topics=[{"name": "no-such-topic"}])
        assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
