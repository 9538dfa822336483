"""Fetches from the leader's side: pending requests, sessions of followers, and what a request confirms."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from tidelog.errors import ErrorCode
from tidelog.replication.attachments.voter import Appointed
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.fetch_server import COMMIT_WITHIN_MS
from tidelog.replication.fetching import MAX_WAIT_MS, TIMEOUT_MS
from tidelog.replication.messages import FetchAsk, FetchItem
from tidelog.replication.voting import TICK_MS
from unit.replication.replica_pair import FOLLOWER, LEADER, Pair


class Voting(Appointed):
    """Every follower is a voter."""

    def __init__(self, driver: ReplicaDriver) -> None:
        super().__init__(driver)
        self.new: list[int] = []  # the high watermark at the beginning of each new process

    def counts(self, follower: int, directory: UUID | None) -> bool:
        return True

    def began(self, voter: int, now_ms: int) -> None:
        self.new.append(self._driver.replica.high_watermark)


def test_a_quiet_request_gets_an_empty_response_after_a_while_and_is_sent_again() -> None:
    pair = Pair(2)
    pair.said.clear()
    pair.clock.advance(3 * (MAX_WAIT_MS + TICK_MS))
    assert 2 <= len(pair.responses()) <= 3
    assert not any(response.parts or response.error for response in pair.responses())
    assert not any(ask.items for ask in pair.asks())


def test_what_arrives_together_leaves_together() -> None:
    pair = Pair(4)
    pair.said.clear()
    for index in range(4):
        pair.append(index)
    pair.clock.settle()
    assert len(pair.responses()[0].parts) == 4


def test_a_follower_that_asked_before_it_registered_asks_again_at_once() -> None:
    """Its registration ends what an earlier run of it asked. Its own ask may stand there already; if that was
    dropped without a word, it would hear nothing before it gives the answer up.
    """
    pair = Pair(2)
    pair.said.clear()
    pair.hosts[LEADER].broker_restarted(FOLLOWER)
    pair.append(0)
    pair.clock.settle()
    assert [response.error for response in pair.responses()][:1] == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND]
    assert pair.ends() == [(1, 1), (0, 0)]


def test_a_request_that_builds_on_something_unknown_is_refused() -> None:
    pair = Pair()
    pair.said.clear()
    pair.hosts[LEADER].receive(FetchAsk(FOLLOWER, 7, 9, 8, [], [], MAX_WAIT_MS, 1 << 20))
    (response,) = pair.responses()
    assert (response.generation, response.error) == (9, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_a_request_that_was_overtaken_does_not_bring_its_session_back() -> None:
    """A complete request arrives again after the one that builds on it, and so does that one. Answered once
    more, the partition would be answered for the leader and pending for the follower, for ever.
    """
    pair = Pair()
    pair.append()
    pair.clock.settle()
    complete = next(ask for ask in pair.asks() if not ask.since)
    after = next(ask for ask in pair.asks() if ask.since == complete.generation)
    pair.said.clear()
    pair.deliver(LEADER, complete)
    pair.clock.settle()
    assert not pair.responses()
    pair.deliver(LEADER, after)
    pair.append()
    pair.clock.settle()
    assert pair.ends() == [(2, 2)]


def test_a_new_process_of_a_voter_is_told_before_its_request_counts() -> None:
    """A complete request of the same process, whose last one was lost, is none."""
    pair = Pair()
    leader = pair.at(LEADER, pair.keys[0])
    leader.voter = voting = Voting(leader)
    server = pair.hosts[LEADER].fetch_server
    server.confirm(leader)
    last = pair.asks()[-1]
    pair.append()
    seen = leader.replica.high_watermark
    server.ask(last._replace(generation=last.generation + 1, since=0))
    assert voting.new == []
    item = FetchItem(leader.key, leader.replica.epoch, 1, leader.replica.epoch, 0, 0)
    server.ask(last._replace(generation=last.generation + 5000, since=0, items=[item]))
    assert voting.new == [seen]
    assert leader.replica.high_watermark > seen
    server.forget(FOLLOWER)
    server.ask(last._replace(generation=last.generation + 5001, since=0))
    assert len(voting.new) == 2


def test_a_former_leader_tells_who_still_waits() -> None:
    pair = Pair()
    pair.said.clear()
    pair.at(LEADER, pair.keys[0]).follow(5, FOLLOWER, (1, 2), 5)
    pair.clock.settle()
    (part,) = pair.responses()[0].parts
    assert part.error is not ErrorCode.NONE


def test_what_an_earlier_run_of_the_follower_says_does_not_count() -> None:
    pair = Pair()
    pair.registered = 8
    pair.append()
    pair.clock.advance(500)
    assert pair.at(LEADER, pair.keys[0]).replica.high_watermark == 0
    pair.epochs[FOLLOWER] = 8
    pair.clock.advance(500)
    assert pair.at(LEADER, pair.keys[0]).replica.high_watermark == 1


def test_a_follower_waits_for_indexes_that_are_built_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is behind, where the leader's log has no index any more; others are served meanwhile."""
    monkeypatch.setattr("tidelog.log.segment_indexes.AT_ONCE_BYTES_MAX", 100)
    pair = Pair(2)
    pair.deaf = True
    for _ in range(5):
        pair.append(0)
    pair.append(1)
    pair.clock.settle()
    log = pair.at(LEADER, pair.keys[0]).log
    log.truncate_to(4)  # Appending goes on without what it knew of the tail.
    log.segments[0].indexes.distrust()
    pair.deaf = False
    work: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
    monkeypatch.setattr(pair.clock, "offload", lambda job, done: work.append((job, done)))
    pair.clock.advance(TIMEOUT_MS + MAX_WAIT_MS)
    assert pair.ends() == [(4, 0), (1, 1)]
    assert [job.__name__ for job, _ in work].count("step") == 1
    for job, done in work:
        done(job())
    pair.clock.settle()
    assert pair.ends() == [(4, 4), (1, 1)]


class TestConfirming:
    def test_a_request_tells_which_response_the_follower_has(self) -> None:
        pair = Pair()
        pair.append()
        pair.clock.advance(50)
        first, *_, newest = pair.asks()
        assert first.heard == 0
        assert newest.heard == pair.responses()[-1].generation

    def test_what_was_under_way_confirms_nothing_newer(self) -> None:
        """The follower's next ask crosses the answer: it does not know that answer yet."""
        pair = Pair()
        server = pair.hosts[LEADER].fetch_server
        (session,) = server._sessions.values()
        pair.clock.advance(20)
        asked_ms, generation = pair.clock.uptime_ms(), session.generation
        ask = pair.asks()[-1]
        server._respond_to_session(session, [])
        crossing = ask._replace(generation=generation + 1, since=generation, items=[], heard=0)
        server.ask(crossing)
        assert session.confirmed_ms < asked_ms
        server.ask(crossing._replace(generation=generation + 2, since=generation + 1, heard=generation))
        assert session.confirmed_ms == asked_ms

    def test_who_never_says_so_costs_no_memory(self) -> None:
        pair = Pair()
        server = pair.hosts[LEADER].fetch_server
        (session,) = server._sessions.values()
        for number in range(1000):
            session.generation = number
            server._respond_to_session(session, [])
        assert len(session.answered) <= 100


class TestCommits:
    """A high watermark without records."""

    def test_it_is_told_a_moment_later(self) -> None:
        pair = Pair(2)
        pair.append(0)
        pair.clock.settle()
        leader, follower = (pair.at(me, pair.keys[0]).replica for me in (LEADER, FOLLOWER))
        assert (leader.high_watermark, follower.high_watermark) == (1, 0)
        pair.clock.advance(COMMIT_WITHIN_MS)
        assert follower.high_watermark == 1

    def test_it_goes_with_the_next_records_of_any_partition(self) -> None:
        """Writes that follow each other cost one response each."""
        pair = Pair(2)
        pair.append(0)
        pair.clock.settle()
        pair.said.clear()
        for _ in range(20):
            pair.append(1)
            pair.clock.settle()
            pair.clock.advance(1)
        assert len(pair.responses()) == 20
        assert [pair.at(FOLLOWER, key).replica.high_watermark for key in pair.keys] == [1, 19]

    def test_it_is_told_in_time_while_a_follower_is_kept_busy_with_empty_responses(self) -> None:
        pair = Pair()
        pair.append()
        pair.clock.settle()
        server = pair.hosts[LEADER].fetch_server
        for _ in range(COMMIT_WITHIN_MS + 1):
            server.prompt(pair.at(LEADER, pair.keys[0]), pair.clock.uptime_ms() + 1)
            pair.clock.settle()
            pair.clock.advance(1)
        assert pair.at(FOLLOWER, pair.keys[0]).replica.high_watermark == 1

    def test_it_is_told_in_time_while_every_request_is_answered_at_once(self) -> None:
        """Readers that must know whether this replica still leads keep the follower from waiting: when the
        timer fires, its response or its next request is on the way.
        """
        pair = Pair()
        pair.append()
        pair.clock.settle()
        leader, server = pair.at(LEADER, pair.keys[0]), pair.hosts[LEADER].fetch_server
        pair.deaf = True
        ask = pair.asks()[-1]._replace(items=[])
        session = server._sessions[FOLLOWER]
        server._respond_to_session(session, [])
        for _ in range(COMMIT_WITHIN_MS + 1):
            pair.clock.advance(1)
            server.when_followed(leader, frozenset({FOLLOWER}), lambda certain: None)
            last = ask.generation
            ask = ask._replace(generation=last + 1, since=last, heard=last)
            server.ask(ask)
            assert not session.parked or leader not in session.items
        told = [part for response in pair.responses() for part in response.parts if part.records is None]
        assert [part.high_watermark for part in told] == [1]

    def test_a_tick_tells_it_if_the_timer_was_lost(self) -> None:
        pair = Pair()
        pair.hosts[LEADER].fetch_server._awaits_commits = True
        pair.append()
        pair.clock.settle()
        pair.clock.advance(2 * TICK_MS)
        assert pair.at(FOLLOWER, pair.keys[0]).replica.high_watermark == 1

    def test_where_replicas_vote_it_is_told_at_once(self) -> None:
        pair = Pair()
        pair.at(LEADER, pair.keys[0]).replica.admit_observers()
        pair.append()
        pair.clock.settle()
        assert pair.at(FOLLOWER, pair.keys[0]).replica.high_watermark == 1

    def test_a_partition_that_is_gone_or_led_elsewhere_is_no_news(self) -> None:
        pair = Pair(2)
        pair.append(0)
        pair.clock.settle()
        pair.hosts[LEADER].remove(pair.keys[0], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        pair.clock.settle()
        pair.clock.advance(COMMIT_WITHIN_MS)
        pair.append(1)
        pair.clock.settle()
        assert pair.at(FOLLOWER, pair.keys[1]).log.end_offset == 1
