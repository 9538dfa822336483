"""Logs without records: the mutations take the rules out, and the stories notice."""

import pytest

from tidelog.errors import InvariantViolation
from tidelog.log.opening import Opening
from tidelog.replication import replica
from tidelog.replication.divergence import ReplicaLog, divergence
from tidelog.replication.driver import ReplicaDriver
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import emptied_logs
from tidelog.sim.telling import StoryFailed


def test_forgetting_the_last_epoch_at_a_restart_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Opening, "_keep_last_epoch", lambda *_: None)
    with pytest.raises((StoryFailed, Violation)):
        emptied_logs.voter_restarts()


def test_forgetting_the_last_epoch_at_a_new_beginning_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaDriver, "restart_at_leader_start", ReplicaDriver.restart_at)
    with pytest.raises((StoryFailed, Violation)):
        emptied_logs.voter_begins_anew()


def test_an_epoch_that_the_leader_does_not_know_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReplicaDriver, "_take_last_epoch", lambda *_: None)
    with pytest.raises((StoryFailed, Violation)):
        emptied_logs.leader_without_records_follows()


def test_comparing_the_epoch_of_a_log_that_skipped_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(
        log: ReplicaLog, base_epoch: int, offset: int, last_epoch: int, _: int
    ) -> tuple[int, int] | None:
        return divergence(log, base_epoch, offset, last_epoch)

    monkeypatch.setattr(replica, "divergence", compare)
    with pytest.raises(InvariantViolation):
        emptied_logs.follower_skips_an_epoch()


def test_an_epoch_without_any_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def last_epoch_of(log: ReplicaLog, base_epoch: int) -> int:
        empty = log.end_offset == log.start_offset
        return max(base_epoch, log.epochs.epoch_at(log.end_offset - (not empty)))

    monkeypatch.setattr(replica, "last_epoch_of", last_epoch_of)
    with pytest.raises(StoryFailed):
        emptied_logs.leader_that_never_had_a_record()
