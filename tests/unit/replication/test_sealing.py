"""Logs that end in a seal: nothing is taken or committed behind it, whoever leads; its holders are told."""

from typing import Any, cast

import pytest
from replica_pair import NOW_MS, Clock

from tidelog.config import TopicConfig
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.protocol.records import ControlType, Record, control_key, encode_batch
from tidelog.replication.attachments.seal import RECHECK_MS, Pausing, seal_at_end
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.election import Election
from tidelog.replication.host import Host, HostPorts
from tidelog.replication.limits import Limits
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Replica
from tidelog.replication.voter_file import VoterFile
from tidelog.replication.voters import VoterSet
from tidelog.replication.votes import Ballot, Timing
from tidelog.sim.disk import SimulatedDisk

ALL = (1, 2, 3)
ACKS_ALL = -1


class Silent:
    def send(self, to: int, message: Any) -> None: ...


class Voter:
    """One of three voters, driven by the test; the others are what the test says they have fetched."""

    def __init__(self, mode: str = "quorum", **limits: Any) -> None:
        self.clock = Clock()
        self.proposed: list[ProposeInSync] = []
        ports = HostPorts(on_proposal=lambda driver, proposal: self.proposed.append(proposal))
        host = Host(1, self.clock, Silent(), lambda: 0.5, ports)
        disk = SimulatedDisk()
        disk.make_directory("data")
        self.log = Log.open(disk, "data/t-0", TopicConfig(), clean=False, now_ms=NOW_MS)
        self.replica = Replica(1, self.log, MODES[mode].policy, Limits(**limits))
        self.driver = ReplicaDriver(("t", 0), self.log, self.replica, self.clock, host)
        self.driver.adopt(MODES[mode])
        host.add(self.driver)
        self.sealing = cast(Pausing, self.driver.seal)

    def lead(self, epoch: int) -> "Voter":
        """Elected: as ``attachments.voter`` does it."""
        self.driver.lead(epoch, ALL, ALL, -1)
        self.sealing.found()
        self.append(control=ControlType.LEADER_CHANGE)
        self.sealing.began()
        return self

    def append(self, control: ControlType | None = None) -> None:
        offset, epoch = self.log.end_offset, self.replica.epoch
        key = None if control is None else control_key(control)
        record = Record(offset, NOW_MS, key, b"", ())
        batch = encode_batch([record], leader_epoch=epoch, control=control is not None)
        self.driver.append(memoryview(batch), offset, NOW_MS, NOW_MS)

    def fetched(self, follower: int, offset: int, start: int = 0) -> None:
        last_epoch = self.log.epochs.epoch_at(offset - 1)
        answer = self.replica.fetched(follower, self.replica.epoch, offset, last_epoch, start, self.clock.ms)
        assert answer.error is ErrorCode.NONE
        assert answer.diverging is None
        self.driver.run(answer.effects)

    def look(self) -> None:
        self.clock.settle()
        self.clock.advance(2 * RECHECK_MS)

    @property
    def takes_records(self) -> bool:
        return self.replica.before_append(ACKS_ALL) is ErrorCode.NONE


@pytest.fixture
def voter() -> Voter:
    """Leads epoch 1; the log: leader change, a record."""
    voter = Voter().lead(1)
    voter.append()
    return voter


def test_a_wish_ends_the_log(voter: Voter) -> None:
    before = voter.takes_records
    voter.sealing.update(wanted=True, since_epoch=0)
    assert (before, voter.takes_records) == (True, False)
    assert voter.replica.before_append(ACKS_ALL) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert seal_at_end(voter.log, 0) == voter.replica.sealed_end_offset == 3
    voter.sealing.update(wanted=True, since_epoch=0)
    assert voter.log.end_offset == 3  # Sealed once.


def test_what_was_under_way_is_acknowledged(voter: Voter) -> None:
    answers: list[ErrorCode] = []
    voter.driver.wait(2, ACKS_ALL, 1000, answers.append)
    voter.sealing.update(wanted=True, since_epoch=0)
    voter.fetched(2, 2)
    assert answers == [ErrorCode.NONE]


def test_the_holders_are_proposed_once_a_majority_has_the_seal(voter: Voter) -> None:
    voter.sealing.update(wanted=True, since_epoch=0)
    voter.fetched(2, 2)
    voter.look()
    assert voter.proposed == []
    voter.fetched(2, 3)
    voter.look()
    assert voter.proposed == [ProposeInSync((1, 2), 1, -1, sealed=True)]
    voter.fetched(3, 3)
    voter.look()
    voter.look()
    assert [each.members for each in voter.proposed] == [(1, 2), (1, 2, 3)]


def test_the_leader_is_a_member_and_must_have_synced_it_as_well() -> None:
    voter = Voter(durable=True).lead(1)
    voter.sealing.update(wanted=True, since_epoch=0)
    for follower in (2, 3):
        voter.fetched(follower, 2)
    assert (voter.replica.high_watermark, voter.log.synced_end_offset) == (2, 0)
    assert voter.replica.propose_holders() == []
    voter.look()  # The sync is done.
    assert voter.proposed == [ProposeInSync((1, 2, 3), 1, -1, sealed=True)]


def test_a_refused_proposal_is_made_again(voter: Voter) -> None:
    voter.sealing.update(wanted=True, since_epoch=0)
    voter.fetched(2, 3)
    voter.look()
    voter.driver.run(voter.replica.proposal_refused())
    voter.look()
    assert [each.members for each in voter.proposed] == [(1, 2), (1, 2)]


def test_whoever_is_elected_later_stays_sealed_and_commits_nothing_behind_the_seal(voter: Voter) -> None:
    voter.sealing.update(wanted=True, since_epoch=0)
    voter.driver.follow(2, -1, ALL, -1)
    voter.sealing.wanted = False  # It may not have heard of the wish.
    voter.lead(3)
    assert voter.log.end_offset == 4
    assert not voter.takes_records
    voter.fetched(2, 4)
    voter.fetched(3, 4)
    assert voter.replica.high_watermark == 3
    voter.look()
    assert voter.proposed == [ProposeInSync((1, 2, 3), 3, -1, sealed=True)]


def test_a_leader_that_lacks_the_seal_writes_one(voter: Voter) -> None:
    voter.sealing.update(wanted=True, since_epoch=0)
    voter.driver.follow(2, 2, ALL, -1)
    voter.log.truncate_to(2)  # Nobody else had it.
    voter.lead(3)
    assert seal_at_end(voter.log, 0) == voter.log.end_offset == 4
    assert not voter.takes_records


def test_the_seal_of_an_earlier_time_means_nothing(voter: Voter) -> None:
    voter.sealing.update(wanted=True, since_epoch=0)
    voter.driver.follow(1002, -1, ALL, -1)
    voter.sealing.update(wanted=False, since_epoch=1002)
    voter.lead(1003)
    assert voter.takes_records
    voter.fetched(2, 4)
    assert voter.replica.high_watermark == 4


def test_a_leader_that_hears_late_that_the_seal_is_old_takes_records_again(voter: Voter) -> None:
    voter.sealing.update(wanted=True, since_epoch=0)
    voter.driver.follow(1002, -1, ALL, -1)
    voter.lead(1003)
    assert not voter.takes_records
    voter.sealing.update(wanted=False, since_epoch=1002)
    assert voter.takes_records


@pytest.mark.parametrize("behind", [None, ControlType.COMMIT])
def test_a_seal_inside_the_log_is_no_end(voter: Voter, behind: ControlType | None) -> None:
    voter.append(control=ControlType.SEAL)
    voter.append(control=ControlType.LEADER_CHANGE)
    assert seal_at_end(voter.log, 0) == 3
    voter.append(control=behind)
    assert seal_at_end(voter.log, 0) is None


@pytest.fixture
def primary() -> Voter:
    """Leads epoch 1 with two backups and two copies before an ok; the log: one record."""
    primary = Voter("primary-backup", min_in_sync=2)
    primary.driver.lead(1, ALL, ALL, 5)
    primary.append()
    return primary


def test_a_primary_pauses_and_proposes_those_who_have_everything(primary: Voter) -> None:
    primary.sealing.update(wanted=True, since_epoch=0)
    assert not primary.takes_records
    assert primary.log.end_offset == 1  # Nobody else can lead: nothing has to be written.
    primary.look()
    assert primary.proposed == []
    primary.fetched(3, 1)
    primary.look()
    assert primary.proposed == [ProposeInSync((1, 3), 1, 5, sealed=True)]


def test_a_primary_waits_for_a_backup_that_has_not_deleted_if_its_copy_is_needed(primary: Voter) -> None:
    primary.fetched(3, 1)
    primary.driver.begin_at(1)
    primary.sealing.update(wanted=True, since_epoch=0)
    primary.look()
    assert primary.proposed == []
    primary.fetched(3, 1, start=1)
    primary.look()
    assert primary.proposed == [ProposeInSync((1, 3), 1, 5, sealed=True)]


def test_a_primary_leaves_out_a_backup_that_has_not_deleted(primary: Voter) -> None:
    primary.fetched(2, 1)
    primary.fetched(3, 1)
    primary.driver.begin_at(1)
    primary.fetched(3, 1, start=1)
    primary.sealing.update(wanted=True, since_epoch=0)
    primary.look()
    assert primary.proposed == [ProposeInSync((1, 3), 1, 5, sealed=True)]


def test_a_primary_goes_on_when_the_wish_is_taken_back(primary: Voter) -> None:
    primary.sealing.update(wanted=True, since_epoch=0)
    primary.sealing.update(wanted=False, since_epoch=0)
    assert primary.takes_records
    primary.append()
    primary.fetched(2, 2)
    assert primary.replica.high_watermark == 2
    primary.look()
    assert primary.proposed == []


def test_one_copy_is_enough_where_one_makes_an_ok() -> None:
    primary = Voter("primary-backup", min_in_sync=1)
    primary.driver.lead(1, ALL, ALL, 5)
    primary.append()
    primary.sealing.update(wanted=True, since_epoch=0)
    primary.look()
    assert [each.members for each in primary.proposed] == [(1,)]


def test_an_empty_log_has_no_seal() -> None:
    assert seal_at_end(Voter().log, 0) is None


class TestLeadersThatNobodyVotedFor:
    """Where epochs jump, the controllers have taken over: who has not heard of it waits for their word."""

    @pytest.fixture
    def election(self) -> Election:
        voters = VoterSet.of([1, 2, 3])
        return Election(1, voters, Ballot(4), Timing(), now_ms=0, chance=0.0, hearsay_max=500)

    def test_hearsay_of_a_far_epoch_is_not_believed(self, election: Election) -> None:
        assert election.leader_hinted(2, 1005, 10) == []
        assert election.epoch == 4

    def test_the_metadata_is(self, election: Election) -> None:
        assert election.leader_hinted(2, 1005, 10, certain=True)
        assert (election.epoch, election.leader) == (1005, 2)

    def test_elections_that_were_missed_are(self, election: Election) -> None:
        election.leader_hinted(2, 9, 10)
        assert (election.epoch, election.leader) == (9, 2)

    def test_to_be_named_oneself_means_nothing(self, election: Election) -> None:
        assert election.leader_hinted(1, 5, 10) == []
        assert election.epoch == 4


def test_who_voted_in_an_earlier_time_says_nothing_about_this_one() -> None:
    disk = SimulatedDisk()
    disk.make_directory("data")
    VoterFile(disk, "data", since_epoch=5).save([(-1, VoterSet.of([1, 2, 3]))])
    found = VoterFile(disk, "data", since_epoch=5).load()
    assert found is not None
    assert found.latest.ids == {1, 2, 3}
    assert VoterFile(disk, "data", since_epoch=1006).load() is None
