"""One partition: what is written, when it is acknowledged and readable, and what a failing disk does."""

from typing import Any, cast

import pytest

from tidelog.broker.partitions.partition import Partition, limits_of
from tidelog.config import TopicConfig
from tidelog.errors import ErrorCode, OffsetOutOfRange, StorageError, TidelogError
from tidelog.log.log import Log
from tidelog.protocol import batch as batches
from tidelog.replication.attachments.successors import Successors
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.host import Host
from tidelog.replication.modes import MODES
from tidelog.replication.replica import NO_LIMIT, NOTHING_SAFE, Replica
from tidelog.sim.disk import EIO, SimulatedDisk
from tidelog.types import TopicPartition
from unit.broker.fakes import NOW_MS, FakeBroker, FakeServices, NoPeers, records

VERSION = 9
NAME = TopicPartition("orders", 0)


class Waiter:
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def data_arrived(self, size: int) -> None:
        self.sizes.append(size)


class FakeSyncer:
    def __init__(self) -> None:
        self.wanted: list[Any] = []

    def want(self, driver: Any) -> None:
        self.wanted.append(driver)


class Setup:
    """A partition with one replica whose syncs are asked for and done by the test."""

    def __init__(self, **config: Any) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("data")
        topic = TopicConfig(**config)
        log = Log.open(self.disk, "data/orders-0", topic, clean=False, now_ms=NOW_MS)
        self.services = FakeServices()
        self.host = Host(1, self.services, NoPeers(), lambda: 0.5)
        self.syncer = FakeSyncer()
        self.host.syncer = cast(Any, self.syncer)
        self.roles: list[bool] = []
        self.partition = self.open(log, topic, 3)
        self.told: list[tuple[str, ErrorCode]] = []

    def open(self, log: Log, topic: TopicConfig, epoch: int) -> Partition:
        limits = limits_of(topic, 1, 1000)
        replica = Replica(1, log, MODES["isr"].policy, limits)
        self.driver = ReplicaDriver(("orders", 0), log, replica, self.services, self.host)
        self.driver.adopt(MODES["isr"])
        partition = Partition(
            NAME, self.driver, topic, lambda: False, lambda changed: self.roles.append(changed.leads)
        )
        self.driver.lead(epoch, (1,), (1,), 0)
        return partition

    @property
    def wanted(self) -> list[Any]:
        return self.syncer.wanted

    def append(self, *values: bytes, **more: Any) -> Any:
        data = memoryview(bytearray(records(*values, **more)))
        return self.partition.append(data, NOW_MS, VERSION)

    def wait(self, name: str, end_offset: int) -> None:
        self.partition.when_acknowledged(end_offset, -1, 1000, lambda error: self.told.append((name, error)))

    def sync(self) -> None:
        log = self.partition.log
        ticket = log.begin_sync()
        ticket.run()
        log.finish_sync(ticket, NOW_MS)
        self.driver.synced()

    def reconfigure(self, **config: Any) -> None:
        topic = TopicConfig(**config)
        self.partition.reconfigure(topic, limits_of(topic, 1, 1000))

    def stored(self) -> list[Any]:
        log = self.partition.log
        region = log.read(log.start_offset, 1 << 20, log.end_offset, at_least_one_batch=True)
        return [header for _, header in batches.iterate(region.read())]

    def fail_next(self) -> None:
        self.disk.fail_at(self.disk.operations + 1, EIO)


class TestAppend:
    def test_offsets_and_epoch_are_assigned(self) -> None:
        setup = Setup()
        first, second = setup.append(b"a", b"b"), setup.append(b"c")
        assert (first.base_offset, first.end_offset, first.log_append_time_ms) == (0, 2, -1)
        assert (second.base_offset, second.end_offset) == (2, 3)
        assert [(each.base_offset, each.leader_epoch) for each in setup.stored()] == [(0, 3), (2, 3)]

    def test_append_time(self) -> None:
        setup = Setup(message_timestamp_type="LogAppendTime")
        appended = setup.append(b"a", at_ms=5)
        assert appended.log_append_time_ms == NOW_MS
        (header,) = setup.stored()
        assert (header.max_timestamp, header.is_log_append_time) == (NOW_MS, True)

    def test_another_codec_than_the_producers(self) -> None:
        setup = Setup(compression_type="lz4")
        setup.append(b"a" * 100, codec="gzip")
        setup.append(b"a" * 100, codec="lz4")
        assert [each.codec for each in setup.stored()] == [3, 3]

    def test_a_refused_batch_leaves_nothing_behind(self) -> None:
        setup = Setup(max_message_bytes=100)
        setup.append(b"a")
        with pytest.raises(TidelogError):
            setup.append(b"x" * 200)
        assert (setup.partition.log.end_offset, setup.partition.high_watermark) == (1, 1)


class TestWatermark:
    def test_what_is_written_can_be_read_at_once(self) -> None:
        setup = Setup()
        setup.append(b"a", b"b")
        assert setup.partition.high_watermark == 2
        setup.wait("a", 2)
        assert setup.told == [("a", ErrorCode.NONE)]

    def test_who_waits_for_bytes_is_told_of_those_that_were_not_committed_at_first(self) -> None:
        setup = Setup(flush_messages=1)
        waiter = Waiter()
        setup.partition.add_fetch_waiter(waiter)
        setup.append(b"a")
        log = setup.partition.log
        ticket = log.begin_sync()
        setup.append(b"b" * 1000)
        ticket.run()
        log.finish_sync(ticket, NOW_MS)
        setup.driver.synced()
        assert setup.partition.high_watermark == 1
        setup.sync()
        assert setup.partition.high_watermark == 2
        assert waiter.sizes[-1] > 1000
        setup.append(b"c")
        setup.sync()
        assert 1 < waiter.sizes[-1] < 100

    def test_where_an_ok_means_synced_nobody_reads_before_the_sync(self) -> None:
        setup = Setup(flush_messages=1)
        appended = setup.append(b"a")
        setup.wait("a", appended.end_offset)
        assert (setup.partition.high_watermark, setup.told) == (0, [])
        assert setup.driver in setup.wanted
        setup.sync()
        assert (setup.partition.high_watermark, setup.told) == (1, [("a", ErrorCode.NONE)])

    def test_one_sync_answers_all_that_were_written_before_it_began(self) -> None:
        setup = Setup(flush_messages=1)
        for name in ("a", "b"):
            setup.wait(name, setup.append(name.encode()).end_offset)
        ticket = setup.partition.log.begin_sync()
        setup.wait("c", setup.append(b"c").end_offset)
        ticket.run()
        setup.partition.log.finish_sync(ticket, NOW_MS)
        setup.driver.synced()
        assert setup.told == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]
        assert setup.partition.high_watermark == 2
        setup.sync()
        assert setup.told[2:] == [("c", ErrorCode.NONE)]

    def test_a_larger_flush_interval_asks_for_syncs_but_waits_for_none(self) -> None:
        setup = Setup(flush_messages=3)
        setup.sync()  # of the new files,
        setup.sync()  # and of the name of the epoch history
        asked = []
        for value in (b"a", b"b", b"c"):
            setup.wait("x", setup.append(value).end_offset)
            asked.append(len(setup.wanted))
        assert asked[1:] == [asked[0], asked[0] + 1]
        assert len(setup.told) == 3

    def test_a_partition_that_is_opened_again_has_committed_what_it_holds(self) -> None:
        setup = Setup(flush_messages=1)
        setup.append(b"a")
        setup.sync()
        setup.append(b"b")
        log = setup.partition.log
        assert setup.open(log, setup.partition.config, 4).high_watermark == 1
        assert setup.open(log, TopicConfig(), 5).high_watermark == 2


class TestReaders:
    def test_are_told_of_new_data_and_its_size(self) -> None:
        setup = Setup()
        waiter, other = Waiter(), Waiter()
        setup.partition.add_fetch_waiter(waiter)
        setup.partition.add_fetch_waiter(other)
        setup.append(b"a")
        size = setup.partition.log.size_bytes
        assert (waiter.sizes, other.sizes) == ([size], [size])
        setup.partition.remove_fetch_waiter(other)
        setup.partition.remove_fetch_waiter(other)
        setup.append(b"a")
        assert (waiter.sizes, other.sizes) == ([size, size], [size])

    def test_are_told_when_data_is_durable_not_when_it_is_written(self) -> None:
        setup = Setup(flush_messages=1)
        waiter = Waiter()
        setup.partition.add_fetch_waiter(waiter)
        setup.append(b"a")
        assert waiter.sizes == []
        setup.sync()
        assert len(waiter.sizes) == 1
        setup.sync()
        assert len(waiter.sizes) == 1

    def test_are_told_after_followers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every commit waits for those, and there may be thousands of readers."""
        setup, order = Setup(), list[str]()

        class Reader(Waiter):
            def data_arrived(self, size: int) -> None:
                order.append("reader")

        monkeypatch.setattr(setup.host.fetch_server, "committed", lambda driver: order.append("followers"))
        setup.partition.add_fetch_waiter(Reader())
        setup.append(b"a")
        assert "reader" in order
        assert "followers" in order[: order.index("reader")]

    def test_may_leave_while_they_are_told(self) -> None:
        setup = Setup()
        partition = setup.partition

        class Leaver(Waiter):
            def data_arrived(self, size: int) -> None:
                super().data_arrived(size)
                partition.remove_fetch_waiter(self)

        waiters = [Leaver() for _ in range(3)]
        for waiter in waiters:
            partition.add_fetch_waiter(waiter)
        setup.append(b"a")
        setup.append(b"b")
        assert [len(waiter.sizes) for waiter in waiters] == [1, 1, 1]

    def test_one_leaves_at_the_same_cost_however_many_there_are(self) -> None:
        """A hundred connections may have fifty thousand fetches, and close in any order."""
        partition = Setup().partition
        compared = 0

        class Compared(Waiter):
            __hash__ = object.__hash__

            def __eq__(self, other: object) -> bool:
                nonlocal compared
                compared += 1
                return self is other

        waiters = [Compared() for _ in range(1000)]
        for waiter in waiters:
            partition.add_fetch_waiter(waiter)
        for waiter in reversed(waiters):
            partition.remove_fetch_waiter(waiter)
        assert compared < len(waiters)

    def test_of_a_partition_that_leaves_are_told(self) -> None:
        setup = Setup(flush_messages=1)
        waiter = Waiter()
        setup.partition.add_fetch_waiter(waiter)
        setup.wait("a", setup.append(b"a").end_offset)
        setup.driver.stop(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert setup.roles[-1] is False
        assert setup.told == [("a", ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert len(waiter.sizes) == 1


class TestReconfigure:
    def test_what_is_no_longer_waited_for_is_acknowledged_at_once(self) -> None:
        setup = Setup(flush_messages=1)
        setup.wait("a", setup.append(b"a").end_offset)
        setup.reconfigure()
        assert setup.told == [("a", ErrorCode.NONE)]

    def test_asking_for_more_takes_nothing_back(self) -> None:
        setup = Setup()
        setup.append(b"a")
        setup.reconfigure(flush_messages=1)
        assert setup.partition.high_watermark == 1
        setup.wait("b", setup.append(b"b").end_offset)
        assert (setup.partition.high_watermark, setup.told) == (1, [])
        setup.sync()
        assert (setup.partition.high_watermark, setup.told) == (2, [("b", ErrorCode.NONE)])

    def test_new_limits_hold_for_the_next_batch(self) -> None:
        setup = Setup()
        setup.append(b"x" * 200)
        setup.reconfigure(max_message_bytes=100, segment_bytes=150)
        with pytest.raises(TidelogError):
            setup.append(b"x" * 200)
        setup.append(b"a")
        assert len(setup.partition.log.segments) == 2


class TestFailingDisk:
    def test_a_failed_write_is_refused_and_so_are_all_after_it(self) -> None:
        setup = Setup()
        setup.append(b"a")
        setup.fail_next()
        for _ in range(2):
            with pytest.raises(StorageError) as refusal:
                setup.append(b"b")
            assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert setup.partition.high_watermark == 1
        assert [each.base_offset for each in setup.stored()] == [0]

    def test_a_failed_write_ends_the_wait_of_what_was_written_before(self) -> None:
        """A failed log is not synced any more, so nobody else would ever tell them."""
        setup = Setup(flush_messages=1)
        setup.wait("a", setup.append(b"a").end_offset)
        setup.fail_next()
        with pytest.raises(StorageError):
            setup.append(b"b")
        assert setup.told == [("a", ErrorCode.KAFKA_STORAGE_ERROR)]

    def test_waiting_for_a_log_that_has_failed_ends_at_once(self) -> None:
        setup = Setup(flush_messages=1)
        appended = setup.append(b"a")
        setup.fail_next()
        with pytest.raises(StorageError):
            setup.partition.log.roll(NOW_MS)
        setup.wait("a", appended.end_offset)
        assert setup.told == [("a", ErrorCode.KAFKA_STORAGE_ERROR)]

    def test_a_failed_sync_answers_everybody_and_commits_nothing(self) -> None:
        setup = Setup(flush_messages=1)
        for name in ("a", "b"):
            setup.wait(name, setup.append(name.encode()).end_offset)
        log = setup.partition.log
        ticket = log.begin_sync()
        setup.fail_next()
        ticket.run()
        with pytest.raises(StorageError) as failure:
            log.finish_sync(ticket, NOW_MS)
        setup.driver.sync_failed(failure.value)
        assert setup.told == [("a", ErrorCode.KAFKA_STORAGE_ERROR), ("b", ErrorCode.KAFKA_STORAGE_ERROR)]
        assert setup.partition.high_watermark == 0
        setup.driver.sync_failed(failure.value)
        assert len(setup.told) == 2


class TestEpochs:
    @pytest.mark.parametrize(
        ("epoch", "code"),
        [
            (-1, ErrorCode.NONE),
            (3, ErrorCode.NONE),
            (2, ErrorCode.FENCED_LEADER_EPOCH),
            (0, ErrorCode.FENCED_LEADER_EPOCH),
            (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ],
    )
    def test_readers_must_know_the_right_one(self, epoch: int, code: ErrorCode) -> None:
        assert Setup().partition.check_reader(epoch) is code


class TestDeleteRecords:
    def test_up_to_an_offset_or_to_the_watermark(self) -> None:
        setup = Setup()
        setup.append(b"a", b"b", b"c")
        setup.partition.delete_records(2)
        assert setup.partition.log.start_offset == 2
        setup.partition.delete_records(1)
        assert setup.partition.log.start_offset == 2
        setup.partition.delete_records(None)
        assert setup.partition.log.start_offset == 3

    @pytest.mark.parametrize("offset", [-2, -5, 4])
    def test_not_outside_of_the_log(self, offset: int) -> None:
        setup = Setup()
        setup.append(b"a", b"b", b"c")
        with pytest.raises(OffsetOutOfRange):
            setup.partition.delete_records(offset)

    def test_not_beyond_what_is_committed(self) -> None:
        setup = Setup(flush_messages=1)
        setup.append(b"a")
        with pytest.raises(OffsetOutOfRange):
            setup.partition.delete_records(1)

    def test_not_in_a_topic_that_is_only_compacted(self) -> None:
        setup = Setup(cleanup_policy=frozenset({"compact"}))
        with pytest.raises(TidelogError) as refusal:
            setup.partition.delete_records(0)
        assert refusal.value.code is ErrorCode.POLICY_VIOLATION


class TestGroupCommit:
    """Together with the syncer: the requests at hand share a sync, the next ones share the next."""

    def test_written_while_a_sync_runs_is_covered_by_the_next(self) -> None:
        broker = FakeBroker()
        broker.create("orders", flush_messages=1)
        syncs = broker.host.syncer.syncs
        broker.services.held = True
        sent = [broker.produce(("orders", 0, records(b"x"))) for _ in range(3)]
        broker.services.settle()
        sent += [broker.produce(("orders", 0, records(b"x"))) for _ in range(2)]
        broker.services.settle()
        assert sent == [[]] * 5
        broker.services.held = False
        broker.services.settle()
        offsets = [answer.responses[0].partition_responses[0].base_offset for (answer,) in sent]
        assert offsets == [0, 1, 2, 3, 4]
        assert broker.host.syncer.syncs - syncs == 2

    def test_a_failed_sync_reaches_the_producers(self) -> None:
        broker = FakeBroker()
        broker.create("orders", flush_messages=1)
        broker.append("orders", b"a")
        broker.services.held = True
        sent = broker.produce(("orders", 0, records(b"b")))
        broker.services.settle()
        broker.disk.fail_at(broker.disk.operations + 1, EIO)
        broker.services.held = False
        broker.services.settle()
        refused = sent[0].responses[0].partition_responses[0]
        assert (refused.error_code, refused.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert broker.append("orders", b"c").error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.partition("orders").high_watermark == 1


@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_only_another_replica_can_be_a_successor(replicas: tuple[int, ...]) -> None:
    """A lone replica is never doubted, so that a commit does not ask. One of several is, when nothing was
    heard of the others."""
    setup = Setup()
    driver = setup.driver
    partition = Partition(
        NAME, driver, TopicConfig(), alone=lambda: True, on_role=lambda _: None, may_be_decided=lambda: True
    )
    driver.attach(Successors(driver))
    driver.lead(4, replicas, (1,), 1)
    setup.services.clock_ms += 10_000
    assert partition.leads is (replicas == (1,))
    assert (driver.replica.safe_end_offset() == NOTHING_SAFE) is (replicas != (1,))
    assert bool(driver.replica.progress) is (replicas != (1,))


def test_what_may_be_committed_while_all_successors_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Following is not enough: each of them may have been appointed, and must hold what is committed."""
    driver, alone = Setup().driver, True
    Partition(NAME, driver, TopicConfig(), alone=lambda: alone, on_role=lambda _: None)
    driver.attach(Successors(driver))
    driver.lead(4, (1, 2, 3), (1, 2), 1)
    monkeypatch.setattr(Successors, "all_follow", lambda self, *, by_hand: True)
    monkeypatch.setattr(Successors, "held_by_all", lambda self, *, by_hand: 7)
    assert driver.replica.safe_end_offset() == 7
    alone = False
    assert driver.replica.safe_end_offset() == NO_LIMIT


def test_a_stand_in_on_a_full_disk_lets_its_readers_go() -> None:
    """It takes no more records and hears of no new leader: consumers would wait there for ever."""
    setup = Setup()
    setup.append(b"a")
    partition = setup.partition
    setup.driver.stand_in.told(True)
    setup.driver.follow(4, -1, (1,), 1)
    assert partition.stands_in and partition.readable_end_offset == 1
    partition.check_may_go_on(1)  # as long as it can write, a new leader reaches it
    partition.log.refuse_writes("the disk is full")
    partition.check_may_go_on(0)
    with pytest.raises(TidelogError) as refused:
        partition.check_may_go_on(1)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
