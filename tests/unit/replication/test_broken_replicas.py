"""One replica breaks: the clock and the others go on."""

import errno
import logging

import pytest

from tidelog.errors import ErrorCode, InvariantViolation, StorageError
from tidelog.replication.driver import SYNC_AGAIN_MS
from tidelog.replication.fetching import BACKOFF_MS, BROKEN_MS, MAX_WAIT_MS
from tidelog.replication.host import HostPorts
from tidelog.replication.limits import Limits
from tidelog.replication.voting import TICK_MS
from unit.replication.replica_pair import FOLLOWER, LEADER, Pair


class Broken(Exception):
    pass


def test_the_clock_goes_on_when_a_client_cannot_be_told() -> None:
    pair = Pair(2)
    pair.deaf = True
    answers: list[ErrorCode] = []

    def cannot_be_told(code: ErrorCode) -> None:
        raise Broken

    for index, done in enumerate((cannot_be_told, answers.append)):
        pair.append(index)
        pair.at(LEADER, pair.keys[index]).wait(1, -1, 10, done)
    with pytest.raises(Broken):
        pair.clock.advance(2 * TICK_MS)
    assert answers == [ErrorCode.REQUEST_TIMED_OUT]
    pair.append(1)
    pair.at(LEADER, pair.keys[1]).wait(2, -1, 10, answers.append)
    pair.clock.advance(2 * TICK_MS)
    assert answers == [ErrorCode.REQUEST_TIMED_OUT] * 2


def test_partitions_that_are_answered_together_with_a_broken_one_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(3)

    def broken(*args: object) -> None:
        raise Broken

    with monkeypatch.context() as patch:
        patch.setattr(pair.at(FOLLOWER, pair.keys[0]), "take", broken)
        for index in range(3):
            pair.append(index)
        with pytest.raises(Broken):
            pair.clock.settle()
        pair.clock.settle()
    assert pair.ends() == [(1, 0), (1, 1), (1, 1)]
    pair.clock.advance(BROKEN_MS + 2 * TICK_MS)
    assert pair.ends() == [(1, 1)] * 3


def test_a_sync_that_cannot_begin_now_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many open files are no reason to take a log out of service."""
    pair = Pair()
    leader = pair.at(LEADER, pair.keys[0])
    leader.set_limits(Limits(min_in_sync=1, durable=True))
    failed: list[object] = []
    pair.hosts[LEADER].ports = HostPorts(on_failed=lambda *what: failed.append(what))
    answers: list[ErrorCode] = []

    def too_many_files(*args: object) -> None:
        raise StorageError("cannot open the newest segment: too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(type(leader.log), "begin_sync", too_many_files)
        pair.append()
        leader.wait(1, -1, 10_000, answers.append)
        pair.clock.settle()
    assert (answers, failed) == ([], [])
    pair.clock.advance(SYNC_AGAIN_MS + TICK_MS)
    assert (answers, failed) == ([ErrorCode.NONE], [])


def test_what_cannot_be_taken_now_is_asked_for_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for at once, the same megabyte would travel over and over."""
    pair = Pair()
    log = pair.at(FOLLOWER, pair.keys[0]).log

    def too_many_files(*args: object) -> None:
        raise StorageError(f"cannot open the newest segment: {OSError(errno.EMFILE, 'too many open files')}")

    with monkeypatch.context() as patch:
        patch.setattr(type(log), "append_batches", too_many_files)
        pair.append()
        pair.clock.settle()
        assert len([answer for answer in pair.responses() if answer.parts]) == 1
    pair.clock.advance(BACKOFF_MS + 2 * TICK_MS)
    assert pair.ends() == [(1, 1)]


def contradicting_pair() -> Pair:
    """The leader of the first partition has lost two records that the follower knows to be committed."""
    pair = Pair(2)
    for _ in range(3):
        pair.append(0)
    pair.clock.settle()
    pair.clock.advance(MAX_WAIT_MS + 2 * TICK_MS)
    assert pair.at(FOLLOWER, pair.keys[0]).replica.high_watermark == 3
    leader = pair.at(LEADER, pair.keys[0])
    leader.log.truncate_to(1)
    leader.replica.watermark.offset = 1
    return pair


def test_a_replica_that_its_leader_contradicts_stops_alone(caplog: pytest.LogCaptureFixture) -> None:
    """And drops nothing. The connection, and with it the other partitions, knows nothing of it."""
    pair = contradicting_pair()
    failed: list[object] = []
    host = pair.hosts[FOLLOWER]
    host._loops[LEADER]._contradicted = lambda driver, leader, error: driver.contradicted(leader, error)
    host.ports = host.ports._replace(on_failed=lambda driver, error: failed.append(driver.key))
    with caplog.at_level(logging.WARNING):
        pair.begin_epoch(1)
        pair.append(0)
        pair.append(1)
        for _ in range(3):
            pair.clock.advance(BROKEN_MS + 2 * TICK_MS)
    assert failed == [pair.keys[0]]
    assert pair.at(FOLLOWER, pair.keys[0]).log.end_offset == 3
    assert pair.ends()[1] == (1, 1)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "truncation below the high watermark" in said[0]
    assert "remove that directory and start it again" in said[0]
    assert caplog.records[0].exc_info is None


def test_a_simulation_does_not_go_on_with_a_contradiction() -> None:
    pair = contradicting_pair()
    with pytest.raises(InvariantViolation, match="below the high watermark"):
        pair.begin_epoch(1)


def test_a_failure_that_is_found_again_and_again_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """On a full disk, its lines would need the space that is missing."""
    pair = Pair()
    driver = pair.at(LEADER, pair.keys[0])
    failure = driver.log.refuse_writes("no space")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            driver.listener.syncer.want(driver)
            pair.clock.settle()
    assert [record.message for record in caplog.records if "no space" in record.message] == [
        f"{driver.key}: no space"
    ]
    assert driver.log.failure is failure
