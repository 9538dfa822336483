"""Shards: loaded from their log, never ahead of it, gone with the leadership."""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.broker.coordinators.coordinator import Coordinator
from tidelog.broker.coordinators.shard import COMMIT_TIMEOUT_MS, SLICE_BYTES, LoadState, Shard
from tidelog.controller.records import BrokerRegistered, PartitionChanged
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.markers import Marker, encode_marker
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.host import HostPorts
from tidelog.sim.disk import EIO
from unit.broker.fakes import ME, NOW_MS, FakeBroker

TOPIC = "__states"


class Machine:
    """Remembers what it is told."""

    def __init__(self, shard: "Shard[Machine]") -> None:
        self.shard = shard
        self.seen: list[tuple[Any, ...]] = []
        self.state = "new"

    def replay(self, record: Record, batch: BatchHeader) -> None:
        self.seen.append((record.key, record.value))

    def marker(self, producer_id: int, epoch: int, committed: bool) -> None:
        self.seen.append((producer_id, epoch, committed))

    def start(self) -> None:
        self.state = "started"

    def stop(self) -> None:
        self.state = "stopped"


class Shell:
    def __init__(self, broker: FakeBroker, partitions: int = 1) -> None:
        self.fake = broker
        self.coordinator: Coordinator[Machine] = Coordinator(broker.broker, TOPIC, Machine)
        broker.partitions.on_role.append(self.coordinator.role_changed)
        broker.create(TOPIC, partitions, cleanup_policy="compact", min_insync_replicas=1)
        broker.services.settle()
        self.done: list[tuple[str, ErrorCode]] = []

    @property
    def machine(self) -> Machine:
        return self.coordinator.machine_of("key")

    @property
    def shard(self) -> Shard[Machine]:
        return self.coordinator._shards[0]

    def refusal(self) -> ErrorCode:
        try:
            assert self.machine
        except TidelogError as refused:
            return refused.code
        return ErrorCode.NONE

    def noting(self, name: str) -> Callable[[ErrorCode], None]:
        return lambda error: self.done.append((name, error))

    def append(self, name: str, *, size: int = 1, **more: object) -> None:
        self.shard.append([(name.encode(), b"x" * size)], self.noting(name), **more)  # type: ignore[arg-type]

    def lead(self, leader: int, epoch: int) -> None:
        """The controller appoints a leader."""
        topic_id = self.fake.topic_id(TOPIC)
        self.fake.submit(PartitionChanged(topic_id, 0, leader, epoch, [leader], [], leader, False, [ME, 2]))


@pytest.fixture
def shell(broker: FakeBroker) -> Shell:
    return Shell(broker)


class TestLoading:
    def test_it_begins_when_the_broker_leads(self, broker: FakeBroker) -> None:
        shell = Shell(broker, 3)
        assert [machine.state for machine in shell.coordinator.machines()] == ["started"] * 3
        assert not shell.coordinator.loading

    def test_everything_is_replayed_in_slices(self, shell: Shell) -> None:
        names = [f"{number:04}" for number in range(300)]
        for name in names:
            shell.append(name, size=1000)
        shell.fake.services.settle()
        assert [name for name, error in shell.done if not error] == names
        shell.lead(ME, 1)
        assert shell.refusal() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert shell.coordinator.loading
        assert list(shell.coordinator.machines()) == []
        offloaded = 0
        while shell.refusal():
            shell.fake.services._soon.popleft()() if shell.fake.services._soon else None
            if shell.fake.services._offloaded:
                offloaded += 1
                work, done = shell.fake.services._offloaded.popleft()
                done(work())
        assert [seen[0] for seen in shell.machine.seen] == [name.encode() for name in names]
        assert offloaded >= 300_000 // SLICE_BYTES

    def test_one_batch_may_be_larger_than_a_slice(self, shell: Shell) -> None:
        shell.append("large", size=3 * SLICE_BYTES)
        shell.append("small")
        shell.fake.services.settle()
        shell.lead(ME, 1)
        shell.fake.services.settle()
        assert [seen[0] for seen in shell.machine.seen] == [b"large", b"small"]

    def test_damage_is_told_so_that_a_whole_replica_leads(self, shell: Shell) -> None:
        shell.append("a")
        shell.fake.services.settle()
        damaged: list[object] = []
        shell.fake.host.ports = HostPorts(on_damaged=damaged.append)
        partition = shell.fake.partition(TOPIC)
        segment = partition.log.segments[0]
        segment.trusted_from = segment.size
        segment.file().write_at(segment.size - 1, b"\xff")
        shell.lead(ME, 1)
        shell.fake.services.settle()
        assert damaged == [partition.driver]
        assert shell.refusal() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def test_markers_are_replayed_where_they_stand(self, shell: Shell) -> None:
        shell.append("a")
        shell.fake.services.settle()
        partition = shell.fake.partition(TOPIC)
        for commits in (True, False):
            marker = Marker(commits, 0)
            batch = encode_marker(marker, 7, 3, partition.log.end_offset, NOW_MS)
            partition.driver.append(memoryview(batch), partition.log.end_offset, NOW_MS, NOW_MS)
        shell.append("b")
        shell.fake.services.settle()
        shell.lead(ME, 1)
        shell.fake.services.settle()
        assert shell.machine.seen == [(b"a", b"x"), (7, 3, True), (7, 3, False), (b"b", b"x")]

    def test_it_is_not_ready_before_the_end_of_the_log_is_committed(self, shell: Shell) -> None:
        shell.append("a")
        shell.fake.services.settle()
        shell.fake.submit(BrokerRegistered(2, shell.fake.services.new_uuid(), "localhost", 9093))
        topic_id = shell.fake.topic_id(TOPIC)
        shell.fake.submit(PartitionChanged(topic_id, 0, ME, 1, [ME, 2], [], ME, False, [ME, 2]))
        partition = shell.fake.partition(TOPIC)
        batch = encode_batch([Record(1, NOW_MS, b"b", b"x")], leader_epoch=1)
        partition.driver.append(memoryview(batch), 1, NOW_MS, NOW_MS)
        shell.fake.services.settle()
        assert partition.high_watermark == 1
        shell.fake.services.advance(100)
        assert shell.refusal() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shell.lead(ME, 2)
        shell.fake.services.settle()
        shell.fake.services.advance(100)
        assert [seen[0] for seen in shell.machine.seen] == [b"a", b"b"]

    def test_a_log_that_cannot_be_read_is_tried_again(self, shell: Shell) -> None:
        shell.append("a")
        shell.fake.services.settle()
        partition = shell.fake.partition(TOPIC)
        read, partition.log.__class__.read = partition.log.__class__.read, _fails  # type: ignore[assignment]
        try:
            shell.lead(ME, 1)
            shell.fake.services.settle()
            assert shell.refusal() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        finally:
            partition.log.__class__.read = read  # type: ignore[method-assign]
        shell.fake.services.advance(1000)
        assert shell.machine.seen == [(b"a", b"x")]


def _fails(*_: object, **__: object) -> None:
    raise TidelogError("the disk is away")


class TestAppending:
    def test_what_comes_together_is_written_together(self, shell: Shell) -> None:
        for name in ("a", "b", "c"):
            shell.append(name)
        assert shell.done == []
        shell.fake.services.settle()
        assert shell.done == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE), ("c", ErrorCode.NONE)]
        partition = shell.fake.partition(TOPIC)
        region = partition.log.read(0, 1 << 20, 3, at_least_one_batch=True)
        assert region.read()[23:27] == b"\x00\x00\x00\x02"  # one batch of three records

    def test_a_batch_does_not_grow_without_end(self, shell: Shell) -> None:
        shell.append("a", size=10_000)
        shell.append("b", size=10_000)
        assert shell.done == [("a", ErrorCode.NONE)]

    def test_one_that_is_too_large_concerns_only_itself(self, shell: Shell) -> None:
        shell.append("a")
        shell.append("large", size=2 << 20)
        shell.append("b")
        shell.fake.services.settle()
        assert shell.done == [
            ("a", ErrorCode.NONE),
            ("large", ErrorCode.MESSAGE_TOO_LARGE),
            ("b", ErrorCode.NONE),
        ]
        assert shell.machine.state == "started"

    def test_order_is_kept(self, shell: Shell) -> None:
        shell.append("a")
        shell.append("large", size=50_000)
        shell.append("b")
        shell.fake.services.settle()
        assert [name for name, _ in shell.done] == ["a", "large", "b"]

    def test_a_write_that_is_not_committed_in_time_is_read_again(self, shell: Shell) -> None:
        """The record is in the log and may yet be committed: only the log can tell."""
        shell.fake.submit(BrokerRegistered(2, shell.fake.services.new_uuid(), "localhost", 9093))
        topic_id = shell.fake.topic_id(TOPIC)
        shell.fake.submit(PartitionChanged(topic_id, 0, ME, 1, [ME, 2], [], ME, False, [ME, 2]))
        shell.fake.services.settle()
        machine = shell.machine
        shell.append("a")
        shell.append("b")
        shell.fake.services.settle()
        assert shell.done == []
        shell.fake.host.start()
        shell.fake.services.settle()
        shell.fake.services.advance(COMMIT_TIMEOUT_MS + 1000)
        assert shell.done == [(name, ErrorCode.COORDINATOR_NOT_AVAILABLE) for name in ("a", "b")]
        assert machine.state == "stopped"
        assert shell.refusal() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shell.lead(ME, 2)  # and alone in sync: now it is committed
        shell.fake.services.settle()
        shell.fake.services.advance(100)
        assert shell.machine.seen == [(b"a", b"x"), (b"b", b"x")]

    def test_a_log_that_fails_is_given_up(self, shell: Shell) -> None:
        machine = shell.machine
        shell.fake.disk.fail_at(shell.fake.disk.operations + 1, EIO)
        shell.append("a")
        shell.fake.services.settle()
        assert shell.done == [("a", ErrorCode.NOT_COORDINATOR)]
        assert machine.state == "stopped"
        # Loaded again, it would only fail at its next write, and be loaded again.
        assert shell.refusal() == ErrorCode.NOT_COORDINATOR


class TestLosingLeadership:
    def test_the_machine_is_stopped(self, shell: Shell) -> None:
        machine = shell.machine
        shell.lead(2, 1)
        assert machine.state == "stopped"
        assert shell.refusal() == ErrorCode.NOT_COORDINATOR

    def test_who_waits_is_told(self, shell: Shell) -> None:
        shard = shell.shard
        shell.append("queued")
        shell.lead(2, 1)
        assert shell.done == [("queued", ErrorCode.NOT_COORDINATOR)]
        shard.append([(b"late", b"")], shell.noting("late"))
        assert shell.done[1] == ("late", ErrorCode.NOT_COORDINATOR)
        shell.fake.services.settle()
        assert len(shell.done) == 2

    def test_while_loading(self, shell: Shell) -> None:
        shell.append("a")
        shell.fake.services.settle()
        shell.lead(ME, 1)
        shard = shell.shard
        shell.lead(2, 2)
        shell.fake.services.settle()
        assert shard.state is LoadState.GONE
        assert shard.machine.state == "new"

    def test_it_comes_back(self, shell: Shell) -> None:
        shell.append("a")
        shell.fake.services.settle()
        shell.lead(2, 1)
        shell.lead(ME, 2)
        shell.fake.services.settle()
        assert shell.machine.seen == [(b"a", b"x")]

    def test_the_topic_is_deleted(self, shell: Shell) -> None:
        machine = shell.machine
        shell.fake.call("delete_topics", topics=[{"name": TOPIC, "topic_id": None}])
        shell.coordinator.follow()
        assert machine.state == "stopped"
        assert shell.refusal() == ErrorCode.NOT_COORDINATOR

    def test_the_broker_stops(self, shell: Shell) -> None:
        machine = shell.machine
        shell.append("a")
        shell.coordinator.close()
        assert machine.state == "stopped"
        assert shell.done == [("a", ErrorCode.NOT_COORDINATOR)]


class TestMarkers:
    def test_they_reach_the_machine(self, shell: Shell) -> None:
        shell.coordinator.marker(0, 7, 3, True)
        shell.coordinator.marker(5, 7, 3, True)
        assert shell.machine.seen == [(7, 3, True)]
