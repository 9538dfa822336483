"""Creating, growing and deleting topics: which wishes become records, and why the others are refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config import BrokerConfig
from tidelog.controller import topics
from tidelog.controller.image import ClusterImage
from tidelog.controller.records import PartitionsAdded, TopicCreated, TopicDeleted
from tidelog.controller.topics import NewTopic
from tidelog.errors import ErrorCode, TidelogError
from unit.controller.clusters import cluster, created, topic_id

DEFAULTS = BrokerConfig.parse({"num.partitions": 3, "default.replication.factor": 2})
NEW_ID = topic_id(99)


def create(
    image: ClusterImage, name: str = "orders", config: BrokerConfig = DEFAULTS, **wish: Any
) -> TopicCreated:
    return topics.create(image, NewTopic(name, **wish), config, NEW_ID)


class TestNames:
    @given(name=st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True))
    def test_legal(self, name: str) -> None:
        if name not in (".", "..", topics.CLUSTER_METADATA_TOPIC):
            topics.check_name(name)

    @pytest.mark.parametrize(
        "name",
        [
            "",
            ".",
            "..",
            "a" * 250,
            "a b",
            "a/b",
            "ä",
            "a\n",
            "a\x00",
            "a:b",
            "../../etc",
            "__cluster_metadata",
        ],
    )
    def test_illegal(self, name: str) -> None:
        with pytest.raises(TidelogError) as refusal:
            topics.check_name(name)
        assert refusal.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert len(refusal.value.message) < 200

    @given(name=st.text(max_size=20))
    def test_a_legal_name_is_a_directory_name(self, name: str) -> None:
        try:
            topics.check_name(name)
        except TidelogError:
            return
        assert name.isascii()
        assert not set(name) & set("/\\\0\n ")

    @pytest.mark.parametrize(
        ("first", "second"), [("a.b", "a_b"), ("a_b", "a.b"), ("a.b_c", "a_b.c"), ("__", "_.")]
    )
    def test_names_that_differ_only_in_dots_and_underscores(self, first: str, second: str) -> None:
        image = cluster(1, 2, records=[created(first, [1])])
        with pytest.raises(TidelogError) as refusal:
            create(image, second)
        assert refusal.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_other_names_do_not_collide(self) -> None:
        image = cluster(1, 2, records=[created("a.b", [1]), created("ab", [1], number=2)])
        for name in ("a-b", "a.bc", "A.b", "a.b.c", "abc"):
            assert create(image, name).name == name


class TestCreate:
    def test_defaults(self) -> None:
        record = create(cluster(1, 2, 3))
        assert (record.name, record.topic_id, record.configs) == ("orders", NEW_ID, {})
        assert [len(replicas) for replicas in record.assignments] == [2, 2, 2]

    def test_numbers_as_wished(self) -> None:
        record = create(cluster(1, 2, 3), partitions=7, replicas=3, configs={"retention.ms": "5"})
        assert [len(set(replicas)) for replicas in record.assignments] == [3] * 7
        assert record.configs == {"retention.ms": "5"}

    def test_topics_of_one_partition_have_different_leaders(self) -> None:
        image = cluster(1, 2, 3)
        leaders = []
        for number in range(6):
            record = topics.create(image, NewTopic(f"t{number}", 1, 1), DEFAULTS, topic_id(number))
            leaders.append(record.assignments[0][0])
            image = image.apply([record])
        assert sorted(leaders) == [1, 1, 2, 2, 3, 3]

    def test_manual_assignment(self) -> None:
        record = create(cluster(1, 2, 3), assignments={0: [3, 1], 1: [1, 2]})
        assert record.assignments == [[3, 1], [1, 2]]

    def test_the_cluster_has_a_limit(self) -> None:
        config = BrokerConfig.parse({"cluster.partitions.max": 3})
        image = cluster(1, 2, records=[created("known", [1], [2])])
        with pytest.raises(TidelogError, match=r"4 partitions; cluster\.partitions\.max is 3") as refusal:
            create(image, config=config, partitions=2)
        assert refusal.value.code is ErrorCode.POLICY_VIOLATION
        create(image, config=config, partitions=1)
        create(image, "__consumer_offsets", config, partitions=50)
        with pytest.raises(TidelogError, match="4 partitions"):
            topics.add_partitions(image, "known", 4, None, cluster_max=3)
        topics.add_partitions(image, "known", 3, None, cluster_max=3)

    @pytest.mark.parametrize(
        ("wish", "code"),
        [
            ({"name": "known"}, ErrorCode.TOPIC_ALREADY_EXISTS),
            ({"name": "a b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
            ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
            ({"partitions": -2}, ErrorCode.INVALID_PARTITIONS),
            ({"partitions": topics.MAX_PARTITIONS + 1}, ErrorCode.INVALID_PARTITIONS),
            ({"replicas": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
            ({"replicas": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
            ({"replicas": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
            ({"assignments": {0: [1]}, "partitions": 1}, ErrorCode.INVALID_REQUEST),
            ({"assignments": {0: [1]}, "replicas": 1}, ErrorCode.INVALID_REQUEST),
            ({"assignments": {0: [9]}}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ({"configs": {"no.such.setting": "1"}}, ErrorCode.INVALID_CONFIG),
            ({"configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
            ({"replicas": 1, "configs": {"min.insync.replicas": "2"}}, ErrorCode.INVALID_CONFIG),
        ],
    )
    def test_refusals(self, wish: dict[str, Any], code: ErrorCode) -> None:
        image = cluster(1, 2, records=[created("known", [1])])
        with pytest.raises(TidelogError) as refusal:
            create(image, **wish)
        assert refusal.value.code is code

    def test_the_mode_is_fixed_at_creation(self) -> None:
        defaults = BrokerConfig.parse({"default.replication.mode": "quorum", "default.replication.factor": 3})

        def made(name: str, **configs: str) -> TopicCreated:
            return topics.create(cluster(1, 2, 3), NewTopic(name, configs=configs), defaults, NEW_ID)

        assert (made("orders").mode, made("orders").configs) == ("quorum", {"replication.mode": "quorum"})
        assert made("orders", **{"replication.mode": "isr"}).mode == "isr"
        # Coordinators lead where the controllers say.
        assert (made("__consumer_offsets").mode, made("__consumer_offsets").configs) == ("isr", {})
        with pytest.raises(TidelogError, match="replication mode is always isr"):
            made("__consumer_offsets", **{"replication.mode": "quorum"})

    def test_an_existing_name_is_told_first(self) -> None:
        """Clients that create "if not exists" look for this code, whatever else is wrong with the wish."""
        image = cluster(1, records=[created("known", [1])])
        with pytest.raises(TidelogError) as refusal:
            create(image, "known", replicas=5, configs={"x": "y"})
        assert refusal.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


class TestAddPartitions:
    @pytest.mark.parametrize("name", sorted(topics.INTERNAL_TOPICS))
    @pytest.mark.parametrize("assignments", [None, [[1, 2]]])
    def test_internal_topics_do_not_grow(self, name: str, assignments: list[list[int]] | None) -> None:
        """The partition of a group follows from their number."""
        image = cluster(3).apply([create(cluster(3), name, partitions=2)])
        with pytest.raises(TidelogError, match="would be lost") as refusal:
            topics.add_partitions(image, name, 3, assignments)
        assert refusal.value.code is ErrorCode.INVALID_PARTITIONS

    def test_goes_on_where_the_topic_ended(self) -> None:
        image = cluster(1, 2, 3)
        image = image.apply([topics.create(image, NewTopic("orders", 3, 2), DEFAULTS, NEW_ID)])
        record = topics.add_partitions(image, "orders", 9, None)
        grown = image.apply([record]).topics["orders"].partitions
        leaders = [partition.leader for partition in grown]
        assert sorted(leaders) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
        assert {len(partition.replicas) for partition in grown} == {2}

    def test_the_order_in_which_brokers_came_does_not_matter(self) -> None:
        topic = created("orders", [1, 2])
        first, second = (cluster(*brokers, records=[topic]) for brokers in [(1, 2, 3), (3, 1, 2)])
        record = topics.add_partitions(first, "orders", 4, None)
        assert record == topics.add_partitions(second, "orders", 4, None)
        assert sorted(replicas[0] for replicas in record.assignments) == [1, 2, 3]

    def test_a_leader_that_is_gone(self) -> None:
        image = cluster(2, 3, records=[created("orders", [7])])
        record = topics.add_partitions(image, "orders", 2, None)
        assert len(record.assignments) == 1

    def test_manual(self) -> None:
        image = cluster(1, 2, 3, records=[created("orders", [1, 2])])
        record = topics.add_partitions(image, "orders", 3, [[2, 3], [3, 1]])
        assert record == PartitionsAdded(topic_id(1), [[2, 3], [3, 1]])

    @pytest.mark.parametrize(
        ("name", "total", "assignments", "code"),
        [
            ("unknown", 9, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("orders", 2, None, ErrorCode.INVALID_PARTITIONS),
            ("orders", 1, None, ErrorCode.INVALID_PARTITIONS),
            ("orders", -1, None, ErrorCode.INVALID_PARTITIONS),
            ("orders", topics.MAX_PARTITIONS + 1, None, ErrorCode.INVALID_PARTITIONS),
            ("orders", 3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("orders", 3, [[1, 2], [1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("orders", 3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("orders", 3, [[1, 9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("orders", 3, [[1, 1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ("orders", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ],
    )
    def test_refusals(
        self, name: str, total: int, assignments: list[list[int]] | None, code: ErrorCode
    ) -> None:
        image = cluster(1, 2, records=[created("orders", [1, 2], [2, 1])])
        with pytest.raises(TidelogError) as refusal:
            topics.add_partitions(image, name, total, assignments)
        assert refusal.value.code is code

    def test_too_few_brokers_are_left(self) -> None:
        image = cluster(1, records=[created("orders", [1, 2])])
        with pytest.raises(TidelogError) as refusal:
            topics.add_partitions(image, "orders", 2, None)
        assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


class TestDelete:
    image = cluster(1, records=[created("orders", [1])])

    def test_by_name(self) -> None:
        assert topics.delete(self.image, "orders", DEFAULTS) == TopicDeleted(topic_id(1))

    def test_unknown(self) -> None:
        with pytest.raises(TidelogError) as refusal:
            topics.delete(self.image, "bills", DEFAULTS)
        assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_disabled(self) -> None:
        config = BrokerConfig.parse({"delete.topic.enable": False})
        with pytest.raises(TidelogError) as refusal:
            topics.delete(self.image, "orders", config)
        assert refusal.value.code is ErrorCode.TOPIC_DELETION_DISABLED
