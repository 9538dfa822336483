"""All partitions of a broker: in step with the metadata, whatever comes between."""

import logging
from typing import Any
from uuid import UUID

import pytest

from tidelog.broker.partitions.opening_queue import (
    ASSIGNED_PER_SLICE,
    PARTITIONS_PER_SLICE,
    SLICE_MS_MAX,
)
from tidelog.controller.records import (
    BrokerConfigChanged,
    PartitionChanged,
    PartitionsAdded,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from tidelog.errors import ErrorCode, StorageError
from tidelog.log.directory import DataDirectory
from tidelog.replication.effects import Truncate
from tidelog.sim.disk import EIO
from tidelog.types import TopicPartition
from unit.broker.fakes import ME, NOW_MS, FakeBroker, records, wanted

FIRST, SECOND = UUID(int=0xA1), UUID(int=0xA2)


def created(
    name: str = "orders", topic_id: UUID = FIRST, configs: dict[str, str] | None = None, count: int = 1
) -> TopicCreated:
    return TopicCreated(name, topic_id, [[ME]] * count, configs or {})


def error(broker: FakeBroker, key: str | UUID, index: int = 0) -> ErrorCode:
    return broker.partitions.find(key, index)[1]


def directories(broker: FakeBroker) -> list[str]:
    return sorted(entry.name for entry in broker.disk.list("data") if entry.is_directory)


class TestFinding:
    def test_by_name_and_id(self, broker: FakeBroker) -> None:
        broker.submit(created(count=2))
        for index in range(2):
            by_name, _ = broker.partitions.find("orders", index)
            by_id, _ = broker.partitions.find(FIRST, index)
            assert by_name is not None
            assert by_name is by_id
            assert by_name.name == TopicPartition("orders", index)
        assert len(broker.partitions) == 2
        assert [each.name.partition for each in broker.partitions] == [0, 1]

    def test_why_there_is_none(self, broker: FakeBroker) -> None:
        broker.submit(created(), TopicCreated("remote", SECOND, [[7]], {}))
        assert error(broker, "bills") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error(broker, UUID(int=99)) is ErrorCode.UNKNOWN_TOPIC_ID
        for key in ("orders", FIRST):
            for index in (1, -1, 1 << 30):
                assert error(broker, key, index) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error(broker, "remote") is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error(broker, SECOND) is ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestFollowing:
    def test_nothing_new_opens_nothing(self, broker: FakeBroker) -> None:
        broker.submit(created())
        before = broker.partition("orders")
        operations = broker.disk.operations
        broker.partitions.follow(broker.store.image, broker.broker.config)
        broker.submit(BrokerConfigChanged("7", {"log.retention.ms": "1"}))
        assert broker.partition("orders") is before
        assert broker.disk.operations == operations

    def test_partitions_are_added(self, broker: FakeBroker) -> None:
        broker.submit(created())
        first = broker.partition("orders")
        broker.submit(PartitionsAdded(FIRST, [[ME], [7], [ME]]))
        assert broker.partition("orders") is first
        assert broker.partition("orders", 1).log is not first.log
        assert error(broker, "orders", 2) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert broker.partition("orders", 3).name.partition == 3

    def test_a_deleted_topic_is_gone(self, broker: FakeBroker) -> None:
        broker.submit(created(count=2))
        broker.append("orders", b"a")
        broker.submit(TopicDeleted(FIRST))
        assert error(broker, "orders") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error(broker, FIRST) is ErrorCode.UNKNOWN_TOPIC_ID
        assert len(broker.partitions) == 0
        assert not any(name.startswith("orders-0") and "delete" not in name for name in directories(broker))

    def test_a_deleted_topic_answers_those_who_wait(self, broker: FakeBroker) -> None:
        broker.submit(created(configs={"flush.messages": "1"}))
        broker.services.held = True
        sent = broker.produce(("orders", 0, records(b"a")))
        reading = broker.fetch(wanted("orders", 0))
        broker.services.settle()  # the sync runs
        broker.submit(TopicDeleted(FIRST))
        broker.services.settle()
        assert sent[0].responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert reading.partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.services.held = False
        broker.services.settle()  # the sync of the log that is gone comes back

    def test_a_topic_deleted_before_its_sync_began(self, broker: FakeBroker) -> None:
        broker.submit(created(configs={"flush.messages": "1"}))
        sent = broker.produce(("orders", 0, records(b"a")))
        broker.submit(TopicDeleted(FIRST))
        broker.services.settle()
        assert sent[0].responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    @pytest.mark.parametrize("at_once", [True, False])
    def test_the_same_name_again_is_another_topic(self, broker: FakeBroker, at_once: bool) -> None:
        broker.submit(created(count=2))
        broker.append("orders", b"old")
        if at_once:
            broker.submit(TopicDeleted(FIRST), created(topic_id=SECOND))
        else:
            broker.submit(TopicDeleted(FIRST))
            broker.submit(created(topic_id=SECOND))
        assert error(broker, FIRST) is ErrorCode.UNKNOWN_TOPIC_ID
        assert error(broker, "orders", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        again = broker.partition("orders")
        assert (again.log.end_offset, again.high_watermark) == (0, 0)
        assert broker.partitions.find(SECOND, 0)[0] is again
        assert broker.append("orders", b"new").base_offset == 0

    def test_settings_of_a_topic(self, broker: FakeBroker) -> None:
        broker.submit(created(count=2), created("bills", SECOND))
        broker.submit(TopicConfigChanged(FIRST, {"max.message.bytes": "77", "flush.messages": "1"}))
        for index in range(2):
            partition = broker.partition("orders", index)
            assert (partition.rules.max_message_bytes, partition.replica.limits.durable) == (77, True)
            assert partition.log.config.flush_messages == 1
        assert broker.partition("bills").rules.max_message_bytes == (1 << 20) + 12
        broker.submit(TopicConfigChanged(FIRST, {"max.message.bytes": None}))
        assert broker.partition("orders").rules.max_message_bytes == (1 << 20) + 12

    def test_settings_of_the_broker_are_defaults_of_its_topics(self, broker: FakeBroker) -> None:
        broker.submit(created(), created("bills", SECOND, {"max.message.bytes": "500"}))
        broker.submit(BrokerConfigChanged("", {"message.max.bytes": "300"}))
        assert broker.partition("orders").rules.max_message_bytes == 300
        assert broker.partition("bills").rules.max_message_bytes == 500
        broker.submit(BrokerConfigChanged(str(ME), {"message.max.bytes": "400"}))
        assert broker.partition("orders").rules.max_message_bytes == 400
        broker.submit(BrokerConfigChanged(str(ME), {"message.max.bytes": None}))
        assert broker.partition("orders").rules.max_message_bytes == 300

    def test_other_spellings_of_a_setting_are_no_change(self, broker: FakeBroker) -> None:
        """Otherwise every change of metadata would configure every partition anew."""
        broker.submit(created(), BrokerConfigChanged("", {"log.preallocate": "FALSE"}))
        config = broker.broker.config
        broker.submit(created("bills", SECOND))
        assert broker.broker.config is config

    def test_readers_go_on_waiting_while_settings_change(self, broker: FakeBroker) -> None:
        broker.submit(created())
        reading = broker.fetch(wanted("orders", 0))
        broker.submit(TopicConfigChanged(FIRST, {"retention.ms": "5"}))
        assert reading.waits
        broker.append("orders", b"a")
        assert reading.partition.records

    def test_who_is_complete_does_not_depend_on_unclean_elections(self, broker: FakeBroker) -> None:
        """A leader steps back only for one that the controllers would appoint without them."""
        broker.submit(created(configs={"unclean.leader.election.enable": "true"}))
        broker.submit(PartitionChanged(FIRST, 0, ME, 1, [ME], [7], ME, replicas=[ME, 7, 8]))
        found, _ = broker.partitions.find("orders", 0)
        assert found is not None
        assert found.driver.successors.complete == {ME, 7}
        assert found.driver.successors.candidates == {7, 8}


class TestSlices:
    count = 2 * PARTITIONS_PER_SLICE + 1

    def test_many_partitions_are_opened_bit_by_bit(self, broker: FakeBroker) -> None:
        settled: list[str] = []
        broker.submit(created(count=self.count))
        broker.partitions.when_open(lambda: settled.append("all"))
        assert (len(broker.partitions), settled) == (0, [])
        broker.services.step()
        assert (len(broker.partitions), settled) == (PARTITIONS_PER_SLICE, [])
        assert error(broker, "orders", self.count - 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.services.settle()
        assert (len(broker.partitions), settled) == (self.count, ["all"])
        broker.partitions.when_open(lambda: settled.append("at once"))
        assert settled == ["all", "at once"]

    def test_a_slow_file_system_makes_shorter_slices(
        self, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def make(path: str) -> None:
            broker.services.clock_ms += SLICE_MS_MAX // 2
            make_directory(path)

        make_directory = broker.disk.make_directory
        monkeypatch.setattr(broker.disk, "make_directory", make)
        broker.submit(created(count=self.count))
        broker.services.step()
        assert len(broker.partitions) == 2
        broker.services.settle()
        assert len(broker.partitions) == self.count

    def test_deleted_before_all_were_opened(self, broker: FakeBroker) -> None:
        settled: list[str] = []
        broker.submit(created(count=self.count))
        broker.partitions.when_open(lambda: settled.append("all"))
        broker.submit(TopicDeleted(FIRST), created(topic_id=SECOND, count=2))
        broker.services.settle()
        assert (len(broker.partitions), settled) == (2, ["all"])
        assert broker.partitions.find(SECOND, 1)[0] is broker.partition("orders", 1)

    def test_configured_before_all_were_opened(self, broker: FakeBroker) -> None:
        broker.submit(created(count=self.count))
        broker.submit(TopicConfigChanged(FIRST, {"max.message.bytes": "77"}))
        broker.services.settle()
        limits = {partition.rules.max_message_bytes for partition in broker.partitions}
        assert (len(broker.partitions), limits) == (self.count, {77})

    def test_grown_before_all_were_opened(self, broker: FakeBroker) -> None:
        broker.submit(created(count=self.count))
        broker.submit(PartitionsAdded(FIRST, [[ME]] * 3))
        broker.services.settle()
        assert len(broker.partitions) == self.count + 3

    def test_many_partitions_are_dropped_bit_by_bit(self, broker: FakeBroker) -> None:
        broker.submit(created(count=self.count))
        broker.services.settle()
        before, settled = broker.partitions.queue.slices, []
        broker.submit(TopicDeleted(FIRST))
        broker.partitions.when_open(lambda: settled.append("gone"))
        # Nobody finds them any more, but most of their logs are still there.
        assert (len(broker.partitions), settled) == (0, [])
        broker.services.step()
        assert len(broker.directory.logs) == self.count - PARTITIONS_PER_SLICE
        broker.services.settle()
        assert (len(broker.directory.logs), settled) == (0, ["gone"])
        assert broker.partitions.queue.slices - before == 3

    def test_a_name_is_used_again_before_all_were_dropped(self, broker: FakeBroker) -> None:
        broker.submit(created(count=self.count))
        broker.services.settle()
        broker.append("orders", b"old", partition=self.count - 1)
        broker.submit(TopicDeleted(FIRST), created(topic_id=SECOND, count=self.count))
        assert error(broker, "orders", self.count - 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.services.settle()
        assert len(broker.partitions) == len(broker.directory.logs) == self.count
        assert broker.partition("orders", self.count - 1).log.end_offset == 0

    def test_a_replica_that_is_wanted_again_before_it_was_dropped(self, broker: FakeBroker) -> None:
        broker.submit(created(count=self.count))
        broker.services.settle()
        last = self.count - 1
        elsewhere = [
            PartitionChanged(FIRST, index, 7, 1, [7], [], 7, replicas=[7]) for index in range(self.count)
        ]
        broker.submit(*elsewhere)
        broker.submit(PartitionChanged(FIRST, last, ME, 2, [ME], [], ME, replicas=[ME]))
        assert error(broker, "orders", last) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        broker.services.settle()
        assert [each.name.partition for each in broker.partitions] == [last]
        assert list(broker.directory.logs) == [TopicPartition("orders", last)]


class TestManyRoles:
    """New roles and settings, handed out in slices."""

    count = ASSIGNED_PER_SLICE + 10

    @pytest.fixture
    def many(self, broker: FakeBroker) -> FakeBroker:
        broker.submit(created(count=self.count))
        broker.services.settle()
        return broker

    def changed(self, index: int, leader: int, epoch: int) -> PartitionChanged:
        return PartitionChanged(FIRST, index, leader, epoch, [leader], [], leader, replicas=[ME, 7])

    def leads(self, broker: FakeBroker) -> list[bool]:
        return [partition.leads for partition in broker.partitions]

    def test_a_slice_in_each_turn(self, many: FakeBroker) -> None:
        many.submit(*[self.changed(index, 7, 1) for index in range(self.count)])
        assert all(self.leads(many))
        many.services.step()
        assert self.leads(many) == [False] * ASSIGNED_PER_SLICE + [True] * 10
        assert not many.partitions.all_assigned
        assert not many.partitions.all_open
        many.services.settle()
        assert not any(self.leads(many))
        assert many.partitions.all_open

    def test_what_changes_twice_is_assigned_as_it_is_last(self, many: FakeBroker) -> None:
        last = self.count - 1
        many.submit(*[self.changed(index, 7, 1) for index in range(self.count)])
        many.submit(self.changed(last, ME, 2))
        many.services.settle()
        assert self.leads(many) == [False] * last + [True]
        assert many.partition("orders", last).replica.epoch == 2

    def test_deleted_before_all_had_their_roles(self, many: FakeBroker) -> None:
        many.submit(*[self.changed(index, 7, 1) for index in range(self.count)])
        many.submit(TopicDeleted(FIRST))
        many.services.settle()
        assert (len(many.partitions), many.partitions.all_open) == (0, True)

    def test_role_and_settings_come_together(self, many: FakeBroker) -> None:
        """Neither an old role with new settings, nor a new one with old settings, also where it waits."""
        changes = [self.changed(index, 7, 1) for index in range(self.count)]
        many.submit(*changes, TopicConfigChanged(FIRST, {"max.message.bytes": "77"}))
        waiting = many.partition("orders", self.count - 1)
        assert (waiting.leads, waiting.rules.max_message_bytes == 77) == (True, False)
        many.services.settle()
        assert {(each.leads, each.rules.max_message_bytes) for each in many.partitions} == {(False, 77)}


class TestOffline:
    @pytest.fixture
    def offline(self, broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> FakeBroker:
        """Partition 0 cannot be opened, partition 1 can."""
        broker.disk.fail_at(broker.disk.operations + 1, EIO)
        with caplog.at_level(logging.ERROR):
            broker.submit(created(count=2))
        assert "orders-0 is offline" in caplog.text
        return broker

    def test_says_why_and_keeps_the_others(self, offline: FakeBroker) -> None:
        assert error(offline, "orders") is ErrorCode.KAFKA_STORAGE_ERROR
        assert error(offline, FIRST) is ErrorCode.KAFKA_STORAGE_ERROR
        sent = offline.produce(("orders", 0, records(b"a")), ("orders", 1, records(b"a")))
        offline.services.settle()
        codes = [each.error_code for each in sent[0].responses[0].partition_responses]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]

    def test_a_new_topic_of_the_name_starts_afresh(self, offline: FakeBroker) -> None:
        offline.submit(TopicDeleted(FIRST), created(topic_id=SECOND))
        assert error(offline, "orders") is ErrorCode.NONE

    def test_a_new_topic_of_the_name_elsewhere_is_not_offline_here(self, offline: FakeBroker) -> None:
        offline.submit(TopicDeleted(FIRST), TopicCreated("orders", SECOND, [[7]], {}))
        assert error(offline, "orders") is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_replica_that_was_moved_away_and_comes_back_starts_afresh(self, offline: FakeBroker) -> None:
        for replicas in ([7], [7, ME]):
            offline.submit(PartitionChanged(FIRST, 0, 7, 1, [7], [], 7, replicas=replicas))
        assert error(offline, "orders") is ErrorCode.NONE

    def test_whoever_waits_for_the_rest_is_called(self, broker: FakeBroker) -> None:
        settled: list[str] = []
        broker.disk.fail_at(broker.disk.operations + 1, EIO)
        broker.submit(created())
        broker.partitions.when_open(lambda: settled.append("all"))
        assert settled == ["all"]


class TestRefusalsInTheLog:
    def test_once_a_minute_per_partition_and_reason(
        self, broker: FakeBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker.submit(created(count=2))
        broken = bytes(61)

        def refuse(index: int, data: Any = broken) -> int:
            caplog.clear()
            with caplog.at_level(logging.WARNING):
                broker.produce(("orders", index, data))
            return len(caplog.records)

        assert [refuse(0), refuse(0), refuse(1)] == [1, 0, 1]
        assert refuse(0, b"short") == 1  # another reason
        broker.services.advance(59_999)
        assert refuse(0) == 0
        broker.services.advance(1)
        assert refuse(0) == 1
        assert "10.0.0.1:5" in caplog.text
        assert "orders-0" in caplog.text


def test_usage_and_path(broker: FakeBroker) -> None:
    total, free = broker.partitions.disk_usage()
    assert 0 < free <= total
    assert broker.partitions.data_path == "data"


def test_a_log_that_breaks_while_open_stays_readable(broker: FakeBroker) -> None:
    broker.submit(created())
    broker.append("orders", b"a")
    broker.disk.fail_at(broker.disk.operations + 1, EIO)
    assert broker.append("orders", b"b").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(broker.partition("orders").log.failure, StorageError)
    assert broker.fetch(wanted("orders", 0)).partition.records


def test_a_watermark_on_disk_does_not_outlive_what_it_spoke_of(broker: FakeBroker) -> None:
    """Cut below it, a log that grows back over it would believe in it again."""
    broker.create("orders")
    for _ in range(5):
        broker.append("orders", b"x")
    partition = broker.partition("orders")
    broker.directory.checkpoint({partition.name: 5})
    partition.driver.run([Truncate(2)])
    assert broker.directory.high_watermark(partition.name) == 2
    broker.disk.crash()
    again = DataDirectory.open(broker.disk, "data", node_id=ME, now_ms=NOW_MS)
    assert again.high_watermark(partition.name) == 2


class TestSettingsOfLaterTimes:
    """Of a broker that hears of many changes at once."""

    REPLICAS = (ME, 7, 8)

    def lead_alone(self, broker: FakeBroker) -> list[Any]:
        """A primary with a record that waits for its copies."""
        configs = {"replication.mode": "primary-backup", "min.insync.replicas": "3"}
        broker.submit(TopicCreated("orders", FIRST, [list(self.REPLICAS)], configs, mode="primary-backup"))
        sent = broker.produce(("orders", 0, records(b"a")))
        assert (sent, broker.partition("orders").log.end_offset) == ([], 1)
        return sent

    def code(self, sent: list[Any]) -> ErrorCode:
        return ErrorCode(sent[0].responses[0].partition_responses[0].error_code)

    def test_they_do_not_reach_a_leader_whose_time_is_over(self, broker: FakeBroker) -> None:
        sent = self.lead_alone(broker)
        other = PartitionChanged(FIRST, 0, 7, 2, [7, 8], [], 7, mode="primary-backup")
        broker.submit(other, TopicConfigChanged(FIRST, {"min.insync.replicas": "1"}))
        broker.services.settle()
        assert self.code(sent) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        replica = broker.partition("orders").replica
        assert (replica.high_watermark, replica.leader, replica.limits.min_in_sync) == (0, 7, 1)

    def test_nor_when_fewer_replicas_mean_fewer_copies(self, broker: FakeBroker) -> None:
        sent = self.lead_alone(broker)
        other = PartitionChanged(FIRST, 0, 7, 2, [7], [], 7, replicas=[7], mode="primary-backup")
        back = PartitionChanged(FIRST, 0, ME, 4, [ME], [], ME, replicas=[ME], mode="primary-backup")
        broker.submit(other, back)
        broker.services.settle()
        assert self.code(sent) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_new_leader_leads_by_the_new_ones(self, broker: FakeBroker) -> None:
        configs = {"replication.mode": "primary-backup", "min.insync.replicas": "1"}
        broker.submit(TopicCreated("orders", FIRST, [list(self.REPLICAS)], configs, mode="primary-backup"))
        backup = PartitionChanged(FIRST, 0, 7, 1, [7, 8, ME], [], 7, mode="primary-backup")
        broker.submit(backup)
        log = broker.partition("orders").log
        batch = memoryview(bytearray(records(b"a")))
        log.append_batches(batch, NOW_MS)
        named = PartitionChanged(FIRST, 0, ME, 2, list(self.REPLICAS), [], ME, mode="primary-backup")
        broker.submit(named, TopicConfigChanged(FIRST, {"min.insync.replicas": "2"}))
        replica = broker.partition("orders").replica
        assert (log.end_offset, replica.epoch, replica.high_watermark) == (1, 2, 0)

    def test_they_reach_who_leads_on(self, broker: FakeBroker) -> None:
        sent = self.lead_alone(broker)
        broker.submit(TopicConfigChanged(FIRST, {"min.insync.replicas": "1"}))
        broker.services.settle()
        assert self.code(sent) is ErrorCode.NONE
