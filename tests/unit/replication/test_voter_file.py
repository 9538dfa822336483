"""Who votes, beside the log: found again as it was written, or known to be damaged."""

from copy import deepcopy

import pytest

from tidelog.replication.voter_file import DamagedVoters, VoterFile
from tidelog.replication.voters import Voter, VoterSet
from tidelog.sim.disk import SimulatedDisk

PATH = "data/voters"
ENTRIES = [(-1, VoterSet.of([1, 2, 3])), (17, VoterSet([Voter(1), Voter(2)], [Voter(3, heals=4)]))]


def disk() -> SimulatedDisk:
    made = SimulatedDisk()
    made.make_directory("data")
    return made


def saved() -> SimulatedDisk:
    on = disk()
    VoterFile(on, "data", since_epoch=5).save(ENTRIES)
    return on


def test_what_was_saved_is_found_again() -> None:
    found = VoterFile(saved(), "data", since_epoch=5).load()
    assert found is not None
    assert list(found.entries) == ENTRIES


def test_a_flipped_bit_names_no_other_voters() -> None:
    on = saved()
    for position in range(on.size(PATH)):
        for bit in range(8):
            flipped = deepcopy(on)
            flipped.flip(PATH, position, bit)
            try:
                found = VoterFile(flipped, "data", since_epoch=5).load()
            except DamagedVoters:
                continue
            assert found is not None, (position, bit)
            assert list(found.entries) == ENTRIES, (position, bit)


@pytest.mark.parametrize("text", [b"", b"garbage", b"\xff\xfe", b"{}", b'{"since_epoch":5,"sets":[]}'])
def test_garbage_is_damage(text: bytes) -> None:
    on = disk()
    on.open(PATH, create=True).write_at(0, text)
    with pytest.raises(DamagedVoters):
        VoterFile(on, "data", since_epoch=5).load()


def test_a_file_of_an_earlier_version_is_believed() -> None:
    on = disk()
    text = b'{"since_epoch":5,"sets":[{"offset":-1,"voters":[{"voter_id":1},{"voter_id":2}]}]}'
    on.open(PATH, create=True).write_at(0, text)
    found = VoterFile(on, "data", since_epoch=5).load()
    assert found is not None
    assert found.latest == VoterSet.of([1, 2])


def test_evidence_of_damage_is_not_written_over() -> None:
    on = disk()
    on.open(PATH, create=True).write_at(0, b"garbage")
    file = VoterFile(on, "data", since_epoch=5)
    file.is_held = True
    file.save(ENTRIES)
    with pytest.raises(DamagedVoters):
        file.load()
    file.is_held = False
    file.save(ENTRIES)
    found = file.load()
    assert found is not None
    assert list(found.entries) == ENTRIES


def test_who_voted_in_an_earlier_time_says_nothing_about_this_one() -> None:
    disk = SimulatedDisk()
    disk.make_directory("data")
    VoterFile(disk, "data", since_epoch=5).save([(-1, VoterSet.of([1, 2, 3]))])
    found = VoterFile(disk, "data", since_epoch=5).load()
    assert found is not None
    assert found.latest.ids == {1, 2, 3}
    assert VoterFile(disk, "data", since_epoch=1006).load() is None
