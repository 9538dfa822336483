"""Looking up offsets and epochs, deleting records, and what is told of disks, clusters and versions."""

from typing import Any
from uuid import UUID

import pytest
from fakes import ME, NOW_MS, FakeBroker, records

from tidelog.broker.handlers import api_versions
from tidelog.broker.registry import SERVED
from tidelog.controller.records import PartitionChanged, TopicCreated
from tidelog.errors import ErrorCode
from tidelog.protocol import messages

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL, TIERED, PENDING = -1, -2, -3, -4, -5, -6


@pytest.fixture
def orders(broker: FakeBroker) -> FakeBroker:
    """Offsets 0 and 1 at NOW - 200, 2 at NOW (the newest), 3 at NOW - 100."""
    broker.create("orders")
    broker.append("orders", b"a", b"b", at_ms=NOW_MS - 200)
    broker.append("orders", b"c", at_ms=NOW_MS)
    broker.append("orders", b"d", at_ms=NOW_MS - 100)
    return broker


class TestListOffsets:
    def look_up(self, broker: FakeBroker, timestamp: int, version: int = 8, **more: Any) -> Any:
        partition = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1, **more}
        topics = [{"name": more.pop("topic", "orders"), "partitions": [partition]}]
        answer = broker.call("list_offsets", version, replica_id=-1, topics=topics)
        return answer.topics[0].partitions[0]

    def found(self, broker: FakeBroker, timestamp: int, version: int = 8) -> tuple[int, int, int]:
        partition = self.look_up(broker, timestamp, version)
        return partition.error_code, partition.offset, partition.timestamp

    @pytest.mark.parametrize("version", range(1, 12))
    def test_first_and_last(self, orders: FakeBroker, version: int) -> None:
        assert self.found(orders, EARLIEST, version) == (0, 0, -1)
        assert self.found(orders, LATEST, version) == (0, 4, -1)
        orders.partition("orders").delete_records(2)
        assert self.found(orders, EARLIEST, version) == (0, 2, -1)

    @pytest.mark.parametrize("version", range(1, 12))
    @pytest.mark.parametrize(
        ("timestamp", "offset", "at_ms"),
        [
            (0, 0, NOW_MS - 200),
            (NOW_MS - 200, 0, NOW_MS - 200),
            (NOW_MS - 199, 2, NOW_MS),
            (NOW_MS, 2, NOW_MS),
            (NOW_MS + 1, -1, -1),
        ],
    )
    def test_by_time(self, orders: FakeBroker, version: int, timestamp: int, offset: int, at_ms: int) -> None:
        assert self.found(orders, timestamp, version) == (0, offset, at_ms)

    def test_special_timestamps(self, orders: FakeBroker) -> None:
        assert self.found(orders, NEWEST) == (0, 2, NOW_MS)
        assert self.found(orders, EARLIEST_LOCAL) == (0, 0, -1)
        assert self.found(orders, TIERED, 9) == (0, -1, -1)
        assert self.found(orders, PENDING, 11) == (0, -1, -1)

    @pytest.mark.parametrize(
        ("timestamp", "version"), [(NEWEST, 6), (EARLIEST_LOCAL, 7), (TIERED, 8), (PENDING, 10), (-7, 11)]
    )
    def test_special_timestamps_before_their_time(
        self, orders: FakeBroker, timestamp: int, version: int
    ) -> None:
        assert self.found(orders, timestamp, version) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)

    def test_of_an_empty_log(self, broker: FakeBroker) -> None:
        broker.create("orders")
        assert self.found(broker, EARLIEST) == (0, 0, -1)
        assert self.found(broker, LATEST) == (0, 0, -1)
        assert self.found(broker, NEWEST) == (0, -1, -1)
        assert self.found(broker, 5) == (0, -1, -1)

    def test_epochs_are_told(self, orders: FakeBroker) -> None:
        for timestamp in (EARLIEST, LATEST, NEWEST, NOW_MS):
            assert self.look_up(orders, timestamp).leader_epoch == 0

    def test_a_new_leader_does_not_take_the_end_back(self, broker: FakeBroker) -> None:
        topic_id = UUID(int=7)
        alone = {"min.insync.replicas": "1"}
        broker.submit(TopicCreated("orders", topic_id, [[ME, 7]], alone))
        broker.produce(("orders", 0, records(b"a")), acks=1)
        assert self.found(broker, LATEST) == (0, 0, -1)
        broker.submit(PartitionChanged(topic_id, 0, ME, 1, [ME, 7], [], ME))
        assert self.look_up(broker, LATEST).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert self.look_up(broker, NOW_MS).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert self.look_up(broker, LATEST, 4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert self.found(broker, EARLIEST) == (0, 0, -1)
        broker.submit(PartitionChanged(topic_id, 0, ME, 1, [ME], [], ME))
        assert self.found(broker, LATEST) == (0, 1, -1)

    def test_what_is_known_is_told_where_more_will_not_be_known_for_long(self, broker: FakeBroker) -> None:
        topic_id = UUID(int=7)
        broker.submit(TopicCreated("orders", topic_id, [[ME, 7]], {"min.insync.replicas": "2"}))
        broker.produce(("orders", 0, records(b"a")), acks=1)
        broker.submit(PartitionChanged(topic_id, 0, ME, 1, [ME], [7], ME))
        assert self.found(broker, LATEST) == (0, 0, -1)

    def test_nothing_that_is_not_committed(self, broker: FakeBroker) -> None:
        broker.create("orders", flush_messages=1)
        broker.append("orders", b"a")
        broker.services.held = True
        broker.produce(("orders", 0, records(b"b", at_ms=NOW_MS + 5)))
        assert self.found(broker, LATEST) == (0, 1, -1)
        assert self.found(broker, NOW_MS + 5) == (0, -1, -1)
        assert self.found(broker, NEWEST) == (0, 0, NOW_MS)

    @pytest.mark.parametrize(
        ("more", "code"),
        [
            ({"topic": "bills"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"partition_index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"partition_index": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ],
    )
    def test_refusals(self, orders: FakeBroker, more: dict[str, Any], code: ErrorCode) -> None:
        found = self.look_up(orders, LATEST, **more)
        assert (found.error_code, found.offset, found.timestamp) == (code, -1, -1)


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


class TestLogDirs:
    @pytest.mark.parametrize("version", range(1, 6))
    def test_sizes_and_room(self, orders: FakeBroker, version: int) -> None:
        orders.create("bills", 2)
        (found,) = orders.call("describe_log_dirs", version, topics=None).results
        assert (found.error_code, found.log_dir) == (0, "data")
        sizes = {
            (topic.name, part.partition_index): part.partition_size
            for topic in found.topics
            for part in topic.partitions
        }
        size = orders.partition("orders").log.size_bytes
        assert sizes == {("orders", 0): size, ("bills", 0): 0, ("bills", 1): 0}
        if version >= 4:
            assert 0 < found.usable_bytes <= found.total_bytes

    def test_only_what_is_asked_for(self, orders: FakeBroker) -> None:
        orders.create("bills", 2)
        topics = [{"topic": "bills", "partitions": [1, 7]}, {"topic": "none", "partitions": [0]}]
        (found,) = orders.call("describe_log_dirs", topics=topics).results
        shown = [(topic.name, [part.partition_index for part in topic.partitions]) for topic in found.topics]
        assert shown == [("bills", [1])]


class TestCluster:
    @pytest.mark.parametrize("version", range(3))
    def test_who_is_there(self, broker: FakeBroker, version: int) -> None:
        answer = broker.call("describe_cluster", version, endpoint_type=1)
        assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "cluster", 1)
        assert [(node.broker_id, node.host, node.port) for node in answer.brokers] == [(1, "localhost", 9092)]

    @pytest.mark.parametrize(
        ("kind", "code"),
        [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)],
    )
    def test_other_endpoints(self, broker: FakeBroker, kind: int, code: ErrorCode) -> None:
        answer = broker.call("describe_cluster", 2, endpoint_type=kind)
        assert (answer.error_code, answer.brokers) == (code, ())
        assert answer.error_message


TOLD = {key: (api.oldest if key else 0, api.newest) for key, api in SERVED.items() if api.announced}


class TestApiVersions:
    def told(self, answer: Any) -> dict[int, tuple[int, int]]:
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    @pytest.mark.parametrize("version", range(5))
    def test_tells_what_is_served(self, broker: FakeBroker, version: int) -> None:
        client = {"client_software_name": "librdkafka", "client_software_version": "2.8.0"}
        answer = broker.call("api_versions", version, **client)
        assert answer.error_code == 0
        assert self.told(answer) == TOLD

    def test_produce_is_shown_from_version_0(self, broker: FakeBroker) -> None:
        """Older librdkafka compresses only then."""
        assert self.told(broker.call("api_versions", 0))[0] == (0, 13)

    @pytest.mark.parametrize(
        ("name", "version"), [("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1.")]
    )
    def test_clients_without_a_proper_name(self, broker: FakeBroker, name: str, version: str) -> None:
        answer = broker.call("api_versions", 3, client_software_name=name, client_software_version=version)
        assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, ())

    def test_a_version_from_the_future_gets_an_answer_anybody_can_read(self) -> None:
        from interop.wire import parse_response

        answer = parse_response(api_versions.downgrade(7)[4:], "api_versions", 0, 7)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert self.told(answer) == TOLD

    def test_every_plain_api_is_one_kio_can_answer(self) -> None:
        for key, api in SERVED.items():
            for version in range(api.oldest, api.newest + 1):
                if api.handler is not None:
                    assert messages.encode(key, version, 1, {})
