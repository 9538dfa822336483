"""Logs that end in a seal: nothing is taken or committed behind it, whoever leads; its holders are told."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.protocol.records import ControlType
from tidelog.replication.attachments.seal import seal_at_end
from tidelog.replication.effects import ProposeInSync
from unit.replication.one_voter import ACKS_ALL, ALL, Voter


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
