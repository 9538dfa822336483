"""Clients that come to the wrong broker are told where to go; readers go to the replica in their rack."""

from uuid import UUID

import pytest

from tidelog.controller.records import BrokerRegistered, PartitionChanged
from tidelog.errors import ErrorCode
from unit.broker.fakes import ME, FakeBroker, records, wanted

OTHER = 2


@pytest.fixture
def broker() -> FakeBroker:
    broker = FakeBroker(broker_rack="a", replica_selector_class="rack-aware", min_insync_replicas=1)
    broker.submit(
        BrokerRegistered(ME, UUID(int=1), "localhost", 9092, "a"),
        BrokerRegistered(OTHER, UUID(int=2), "elsewhere", 9093, "b"),
    )
    broker.create("orders")
    return broker


def lead(broker: FakeBroker, leader: int, epoch: int) -> None:
    in_sync = [leader] if leader == OTHER else [ME, OTHER]
    change = PartitionChanged(
        broker.topic_id("orders"), 0, leader, epoch, in_sync, [], leader, False, [ME, OTHER]
    )
    broker.submit(change)
    broker.services.settle()


class TestHints:
    def test_a_producer_hears_who_leads_and_where(self, broker: FakeBroker) -> None:
        lead(broker, OTHER, 4)
        (answer,) = broker.produce(("orders", 0, records(b"x")))
        (partition,) = answer.responses[0].partition_responses
        assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (OTHER, 4)
        assert [(node.node_id, node.host, node.port) for node in answer.node_endpoints] == [
            (OTHER, "elsewhere", 9093)
        ]

    def test_a_consumer_with_an_old_epoch_does_too(self, broker: FakeBroker) -> None:
        lead(broker, OTHER, 4)
        fetching = broker.fetch(wanted("orders", 0, current_leader_epoch=2), version=16)
        broker.services.settle()
        assert fetching.partition.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert fetching.partition.current_leader.leader_id == OTHER
        assert [node.node_id for node in fetching.answer.node_endpoints] == [OTHER]

    def test_old_versions_have_no_room_for_it(self, broker: FakeBroker) -> None:
        lead(broker, OTHER, 4)
        (answer,) = broker.produce(("orders", 0, records(b"x")), version=9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_while_nobody_leads_nobody_is_named(self, broker: FakeBroker) -> None:
        lead(broker, OTHER, 4)
        topic_id = broker.topic_id("orders")
        broker.submit(PartitionChanged(topic_id, 0, -1, 5, [OTHER], [], OTHER, False, [ME, OTHER]))
        broker.services.settle()
        (answer,) = broker.produce(("orders", 0, records(b"x")))
        assert answer.responses[0].partition_responses[0].current_leader.leader_id == -1
        assert answer.node_endpoints == ()

    def test_a_leader_that_was_just_lost_is_not_named(self, broker: FakeBroker) -> None:
        lead(broker, OTHER, 4)
        broker.broker.lost_brokers = {OTHER}
        (answer,) = broker.produce(("orders", 0, records(b"x")))
        assert answer.responses[0].partition_responses[0].current_leader.leader_id == -1
        assert answer.node_endpoints == ()
        fetching = broker.fetch(wanted("orders", 0, current_leader_epoch=2), version=16)
        broker.services.settle()
        assert fetching.partition.current_leader.leader_id == -1
        assert fetching.answer.node_endpoints == ()


class TestRacks:
    def fetched(self, broker: FakeBroker, offset: int) -> None:
        """The other broker asks as a follower does."""
        driver = broker.partition("orders").driver
        replica = driver.replica
        last_epoch = replica.epoch if offset else -1
        driver.run(replica.fetched(OTHER, replica.epoch, offset, last_epoch, 0, 0).effects)

    def test_a_reader_is_sent_to_its_rack(self, broker: FakeBroker) -> None:
        lead(broker, ME, 1)
        broker.produce(("orders", 0, records(b"x")))
        self.fetched(broker, 1)
        near = broker.fetch(wanted("orders", 0), version=12, rack_id="b")
        assert near.partition.preferred_read_replica == OTHER
        for rack in ("a", "c", ""):
            here = broker.fetch(wanted("orders", 0), version=12, rack_id=rack)
            assert here.partition.preferred_read_replica == -1
            assert here.partition.records

    def test_not_to_a_replica_that_lacks_what_it_wants(self, broker: FakeBroker) -> None:
        lead(broker, ME, 1)
        for _ in range(3):
            broker.produce(("orders", 0, records(b"x")))
        self.fetched(broker, 1)
        behind = broker.fetch(wanted("orders", 2), version=12, rack_id="b", max_wait=0)
        assert behind.partition.preferred_read_replica == -1

    def test_a_follower_serves_what_is_committed(self, broker: FakeBroker) -> None:
        broker.append("orders", b"x")
        lead(broker, OTHER, 2)
        fetching = broker.fetch(wanted("orders", 0), version=12)
        assert fetching.partition.error_code == 0
        assert fetching.partition.records
        old = broker.fetch(wanted("orders", 0), version=10)
        assert old.partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
