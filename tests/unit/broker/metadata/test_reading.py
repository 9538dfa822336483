"""Catching up with the metadata: a few decisions at a time, and each of them whole."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.broker.metadata import quorum as metadata
from tidelog.broker.metadata.quorum import MetadataPorts, MetadataQuorum
from tidelog.broker.metadata.snapshots import Applied
from tidelog.config import TopicConfig
from tidelog.controller import records
from tidelog.controller.image import ClusterImage
from tidelog.errors import StorageError
from tidelog.log.log import Log
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.replica import Role
from tidelog.sim.disk import SimulatedDisk
from unit.broker.fakes import FakeServices

DECISIONS, SIZE = 10, 30  # and how many records each has


class Node:
    def __init__(self, role: Role) -> None:
        self.services = FakeServices()
        self.log = Log.open(SimulatedDisk(), "metadata", TopicConfig(), clean=False, now_ms=0)
        for _ in range(DECISIONS):
            self._append()
        replica = SimpleNamespace(role=role, high_watermark=self.log.end_offset, epoch_start_offset=1 << 60)
        ignore = SimpleNamespace(committed=lambda: None, applied=lambda size: self.sizes.append(size))
        self.sizes: list[int] = []
        self.images: list[ClusterImage] = []
        self.quorum = MetadataQuorum(
            cast(Any, SimpleNamespace(log=self.log, replica=replica, closed=False)),
            cast(Any, None), self.services, cast(Any, ignore), lambda ports: cast(Any, ignore),
            Applied(ClusterImage(), 0), MetadataPorts(on_change=self.images.append),
        )  # fmt: skip

    def _append(self) -> None:
        first = self.log.end_offset
        rows = [records.ProducerIdsReserved(1000 * (first + place + 1)) for place in range(SIZE)]
        batch = encode_batch(
            [Record(first + place, 0, None, records.encode(row), ()) for place, row in enumerate(rows)],
            leader_epoch=0,
        )
        self.log.append_batches(memoryview(batch), 0)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "APPLIED_AT_ONCE", 2 * SIZE - 5)


@pytest.mark.usefixtures("few")
def test_a_node_that_follows_goes_on_in_a_moment() -> None:
    node = Node(Role.FOLLOWER)
    node.quorum.committed()
    node.quorum.committed()  # More was committed meanwhile: one goes on, not two.
    assert node.quorum.committed_offset == 4 * SIZE
    node.services.settle()
    assert node.quorum.committed_offset == DECISIONS * SIZE
    assert node.quorum.slices == len(node.images) == DECISIONS // 2
    assert sum(node.sizes) == node.log.size_bytes


@pytest.mark.usefixtures("few")
def test_a_controller_that_was_elected_catches_up_in_slices_before_it_is_active() -> None:
    node = Node(Role.LEADER)
    node.quorum.committed()
    assert (node.quorum.committed_offset, node.quorum.active) == (2 * SIZE, False)
    node.services.settle()
    assert node.quorum.committed_offset == DECISIONS * SIZE


def test_nobody_sees_half_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "APPLIED_AT_ONCE", SIZE // 6)
    node = Node(Role.FOLLOWER)
    node.quorum.committed()
    node.quorum.committed()
    assert (node.images, node.quorum.committed_offset) == ([], 0)  # two of three slices
    node.services.settle()
    assert [image.next_producer_id for image in node.images] == [
        1000 * SIZE * (decision + 1) for decision in range(DECISIONS)
    ]
    assert node.quorum.slices == 3 * DECISIONS
    assert sum(node.sizes) == node.log.size_bytes


def test_a_snapshot_in_the_middle_of_a_decision_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "APPLIED_AT_ONCE", SIZE // 6)
    node = Node(Role.FOLLOWER)
    node.quorum.committed()
    sent = ClusterImage(next_producer_id=2000 * SIZE)
    node.quorum.load(sent, 2 * SIZE)
    assert node.images == [sent]
    node.services.settle()
    assert node.images[1].next_producer_id == 3000 * SIZE
    assert node.quorum.committed_offset == DECISIONS * SIZE


def test_a_decision_that_cannot_be_read_is_read_again_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "APPLIED_AT_ONCE", SIZE // 6)
    node = Node(Role.FOLLOWER)
    node.quorum.committed()
    decode, broken = records.decode, [True]

    def decode_once_broken(value: bytes) -> records.MetadataRecord:
        if broken:
            broken.clear()
            raise StorageError("unreadable")
        return decode(value)

    monkeypatch.setattr(records, "decode", decode_once_broken)
    node.services.settle()
    assert node.images == []
    node.quorum.committed()
    node.services.settle()
    assert node.images[0].next_producer_id == 1000 * SIZE
    assert node.quorum.committed_offset == DECISIONS * SIZE
