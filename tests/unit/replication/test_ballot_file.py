"""A controller's ballot: found again as it was written, or known to be damaged."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast
from uuid import UUID

from tidelog.errors import StorageError
from tidelog.replication.ballot_file import BallotFile
from tidelog.replication.votes import Ballot
from tidelog.services import Services
from tidelog.sim.disk import SimulatedDisk

PATH = "data/quorum-state"
DISK_ID = UUID(int=77)


class AtOnce:
    def offload(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        done(work())


def file_on(disk: SimulatedDisk) -> BallotFile:
    return BallotFile(disk, "data", cast(Services, AtOnce()))


def saved() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("data")
    file = file_on(disk)
    file.open(lambda: DISK_ID)
    file.save(Ballot(12, 3), lambda result: None)
    return disk


def test_what_was_saved_is_found_again() -> None:
    assert file_on(saved()).open(lambda: UUID(int=1)) == (Ballot(12, 3), DISK_ID)


def test_a_flipped_bit_is_no_other_vote() -> None:
    disk = saved()
    for position in range(disk.size(PATH)):
        for bit in range(8):
            flipped = deepcopy(disk)
            flipped.flip(PATH, position, bit)
            try:
                found = file_on(flipped).open(lambda: UUID(int=1))
            except StorageError:
                continue
            assert found == (Ballot(12, 3), DISK_ID), (position, bit)


def test_a_file_without_a_checksum_is_believed() -> None:
    disk = SimulatedDisk()
    disk.make_directory("data")
    disk.open(PATH, create=True).write_at(0, b'{"leaderEpoch":4,"votedId":2,"dataVersion":1}')
    assert file_on(disk).load() == Ballot(4, 2)
