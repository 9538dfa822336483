"""Voters that were further than the controllers had thought when these took over."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tidelog.broker.quorum.partitions import REPEAT_MS, ClusterPorts, QuorumPartitions
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.messages import InSyncAsk
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.votes import Timing
from tidelog.sim.disk import SimulatedDisk

KEY = (UUID(int=7), 0)
APPOINTED = PartitionImage((1, 2, 3), (2, 3), 2, 1005, partition_epoch=9, mode_epoch=1005)


class Quiet:
    """Whatever is asked of the surroundings."""

    def uptime_ms(self) -> int:
        return 0

    def send(self, to: int, message: Any) -> None: ...

    def soon(self, callback: Any) -> None: ...


@pytest.fixture
def asked() -> list[Any]:
    """Of the controllers."""
    return []


@pytest.fixture
def quorum(asked: list[Any]) -> QuorumPartitions:
    disk = SimulatedDisk()
    disk.make_directory("data")
    voter = SimpleNamespace(key=KEY, replica=SimpleNamespace(epoch=5000))
    host: Any = SimpleNamespace(me=1, drivers={KEY: voter})
    quiet: Any = Quiet()
    cluster = ClusterPorts(ClusterImage, lambda: 4, asked.append)
    quorum = QuorumPartitions(host, disk, "data", quiet, quiet, lambda: 0.5, Timing(), None, cluster)
    quorum._elected[KEY] = cast(Elected, SimpleNamespace(metadata_changed=lambda *_: None))
    return quorum


def test_they_say_so_until_they_are_overtaken(quorum: QuorumPartitions, asked: list[Any]) -> None:
    voter = quorum._host.drivers[KEY]
    quorum.outvoted(voter, APPOINTED)
    quorum.tick(1000)
    quorum.tick(1000 + REPEAT_MS // 2)
    assert len(asked) == 1
    proposal = asked[0].proposal
    assert isinstance(asked[0], InSyncAsk)
    assert (proposal.broker_id, proposal.broker_epoch, proposal.leader_epoch, proposal.elected) == (
        1,
        4,
        5000,
        True,
    )
    quorum.tick(1000 + 2 * REPEAT_MS)
    assert len(asked) == 2
    quorum.forget(voter)  # The controllers went above it, and the election is over.
    quorum.tick(1000 + 4 * REPEAT_MS)
    assert len(asked) == 2


def test_a_loss_is_over_when_the_controllers_do_not_rely_on_the_replica(quorum: QuorumPartitions) -> None:
    quorum.note_lost(KEY, lambda: None)
    quorum._lost[KEY] = 5  # the partition epoch in which it was found
    assert quorum.is_lost(KEY)
    quorum.not_relied_on(KEY)
    assert not quorum.is_lost(KEY)
    assert not quorum._lost
    quorum.not_relied_on(KEY)  # Metadata is applied again and again.
