"""Voters that were further than the controllers had thought when these took over."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tidelog.broker.partitions.assigning import ElectedAssigner
from tidelog.broker.quorum.partitions import REPEAT_MS, ClusterPorts, QuorumPartitions
from tidelog.controller.image import ClusterImage, PartitionImage
from tidelog.controller.messages import InSyncAsk
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.voters import Voter, VoterSet
from tidelog.replication.votes import Ballot, Timing
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
    quorum._book.note_lost(KEY, 5, lambda result: None)
    quorum._lost[KEY] = 5  # the partition epoch in which it was found
    assert quorum.is_lost(KEY)
    quorum.not_relied_on(KEY)
    assert not quorum.is_lost(KEY)
    assert not quorum._lost
    quorum.not_relied_on(KEY)  # Metadata is applied again and again.


class TestMissingLogs:
    def assigner(self, quorum: QuorumPartitions) -> ElectedAssigner:
        return ElectedAssigner(quorum, lambda *key: None, lambda *key: None)

    def test_one_that_is_missing_again_is_noted_again(self, quorum: QuorumPartitions) -> None:
        """The log that was readmitted after the first loss is not the one that is there now."""
        quorum._book._ballots[KEY] = Ballot(3, 1)
        quorum._book.note_lost(KEY, 5, lambda result: None)  # by an earlier process
        assigner = self.assigner(quorum)
        assert assigner.awaits_note(KEY, APPOINTED, lambda: False, lambda: None)
        assert quorum._book.lost_since(KEY) == APPOINTED.partition_epoch
        # It is opened when that is on disk.
        assert not assigner.awaits_note(KEY, APPOINTED, lambda: False, lambda: None)

    def test_one_that_is_there_is_not_noted(self, quorum: QuorumPartitions) -> None:
        quorum._book._ballots[KEY] = Ballot(3, 1)
        assert not self.assigner(quorum).awaits_note(KEY, APPOINTED, lambda: True, lambda: None)
        assert not quorum.is_lost(KEY)

    @pytest.mark.parametrize(("heals", "is_lost"), [(-1, True), (5, True), (6, False)])
    def test_a_readmission_for_a_later_loss_is_found_in_the_log(
        self, quorum: QuorumPartitions, heals: int, is_lost: bool
    ) -> None:
        quorum._book.note_lost(KEY, 5, lambda result: None)
        quorum._recall_noted(KEY, VoterSet([Voter(1, None, heals=heals)]), APPOINTED)
        assert quorum.is_lost(KEY) == is_lost
        assert quorum._lost == ({KEY: APPOINTED.partition_epoch} if is_lost else {})

    def test_a_note_without_an_epoch_is_reported(self, quorum: QuorumPartitions) -> None:
        """An earlier version has written it."""
        quorum._book.note_lost(KEY, -1, lambda result: None)
        quorum._recall_noted(KEY, VoterSet([Voter(1, None, heals=6)]), APPOINTED)
        assert quorum.is_lost(KEY)

    def test_a_replica_that_was_moved_away_takes_its_loss_with_it(self, quorum: QuorumPartitions) -> None:
        """If it comes back, nobody would number that loss, and it would never vote."""
        quorum._book.note_lost(KEY, 5, lambda result: None)
        quorum._lost[KEY] = 5
        quorum.gone(quorum._host.drivers[KEY])
        assert not quorum.is_lost(KEY)
        assert not quorum._lost
