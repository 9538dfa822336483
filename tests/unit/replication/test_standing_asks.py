"""Asks that stand: what travels between a leader and its follower, and what happens when some is lost."""

from collections import deque
from collections.abc import Callable
from errno import EIO
from typing import Any

import pytest

from tidelog.config import TopicConfig
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.fetching import BACKOFF_MS, MAX_WAIT_MS, TIMEOUT_MS
from tidelog.replication.host import Host, HostPorts
from tidelog.replication.limits import Limits
from tidelog.replication.messages import FetchAsk, FetchGot, FetchPart, Message
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Replica
from tidelog.replication.voting import TICK_MS
from tidelog.sim.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
LEADER, FOLLOWER = 1, 2


class Clock:
    """Time and work of both nodes, in the test's hands."""

    def __init__(self) -> None:
        self.ms = 0
        self._soon: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []

    def now_ms(self) -> int:
        return NOW_MS + self.ms

    def perturb(self, name: str) -> bool:
        return False

    def uptime_ms(self) -> int:
        return self.ms

    def new_uuid(self) -> Any:
        raise NotImplementedError

    def soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def in_turn(self, callback: Callable[[], None]) -> None:
        self.soon(callback)

    def later(self, delay_ms: float, callback: Callable[[], None]) -> Any:
        self._timers.append((self.ms + int(delay_ms), len(self._timers), callback))
        return self

    def cancel(self) -> None: ...

    def offload(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.soon(lambda: done(work()))

    def settle(self) -> None:
        while self._soon:
            self._soon.popleft()()

    def advance(self, milliseconds: int) -> None:
        end = self.ms + milliseconds

        def first_due() -> list[tuple[int, int, Callable[[], None]]]:
            return sorted((timer for timer in self._timers if timer[0] <= end), key=lambda timer: timer[:2])

        while due := first_due():
            self._timers.remove(due[0])
            self.ms = max(self.ms, due[0][0])
            due[0][2]()
            self.settle()
        self.ms = end


class Pair:
    """A leader and a follower of some partitions, and everything they say to each other."""

    def __init__(self, partitions: int = 1) -> None:
        self.clock = Clock()
        self.said: list[tuple[int, Message]] = []
        self.deaf = False  # Whether what is said is lost.
        self.one_way_ms = 0
        self.bytes_per_ms = 0  # 0: as many as you like. One answer after the other.
        self._line_free_ms = 0
        self.epochs = {LEADER: 7, FOLLOWER: 7}  # as each of them says
        self.registered = -1  # as the controllers say of everybody
        self.begins: list[int] = []  # where the follower's log begins when it commits
        self.hosts = {me: self._host(me) for me in (LEADER, FOLLOWER)}
        self.keys = [("t", index) for index in range(partitions)]
        self.disks = {me: SimulatedDisk() for me in self.hosts}
        for me, host in self.hosts.items():
            self.disks[me].make_directory("data")
            for key in self.keys:
                log = Log.open(self.disks[me], f"data/t-{key[1]}", TopicConfig(), clean=False, now_ms=NOW_MS)
                replica = Replica(me, log, MODES["isr"].policy, Limits(min_in_sync=1))
                driver = ReplicaDriver(key, log, replica, self.clock, host)
                driver.adopt(MODES["isr"])
                host.add(driver)
            host.start()
        self.begin_epoch(0)

    def _host(self, me: int) -> Host:
        def committed(driver: ReplicaDriver) -> None:
            if me == FOLLOWER:
                self.begins.append(driver.log.start_offset)

        ports = HostPorts(lambda: self.epochs[me], lambda broker: self.registered, committed)
        return Host(me, self.clock, _Peers(self, me), lambda: 0.5, ports)

    def begin_epoch(self, epoch: int) -> None:
        for key in self.keys:
            self.at(LEADER, key).lead(epoch, (1, 2), (1, 2), epoch)
            self.at(FOLLOWER, key).follow(epoch, LEADER, (1, 2), epoch)
        self.clock.settle()

    def at(self, me: int, key: tuple[str, int]) -> ReplicaDriver:
        return self.hosts[me].drivers[key]

    def append(self, index: int = 0, value: bytes = b"x") -> None:
        driver = self.at(LEADER, self.keys[index])
        offset = driver.log.end_offset
        batch = encode_batch([Record(offset, NOW_MS, None, value, ())], leader_epoch=driver.replica.epoch)
        driver.append(memoryview(batch), offset, NOW_MS, NOW_MS)

    def ends(self) -> list[tuple[int, int]]:
        """(leader's, follower's) log end of each partition."""
        return [
            (self.at(LEADER, key).log.end_offset, self.at(FOLLOWER, key).log.end_offset) for key in self.keys
        ]

    def asks(self) -> list[FetchAsk]:
        return [message for _, message in self.said if isinstance(message, FetchAsk)]

    def answers(self) -> list[FetchGot]:
        return [message for _, message in self.said if isinstance(message, FetchGot)]

    def deliver(self, to: int, message: Message) -> None:
        delay_ms = self.one_way_ms + self._transfer_ms(message)
        if delay_ms:
            self.clock.later(delay_ms, lambda: self.hosts[to].receive(message))
        else:
            self.clock.soon(lambda: self.hosts[to].receive(message))

    def _transfer_ms(self, message: Message) -> int:
        if not self.bytes_per_ms or not isinstance(message, FetchGot):
            return 0
        size = sum(part.records.size for part in message.parts if part.records is not None)
        begins_ms = max(self.clock.ms, self._line_free_ms)
        self._line_free_ms = begins_ms + size // self.bytes_per_ms
        return self._line_free_ms - self.clock.ms


class _Peers:
    def __init__(self, pair: Pair, me: int) -> None:
        self._pair = pair

    def send(self, to: int, message: Message) -> None:
        self._pair.said.append((to, message))
        if not self._pair.deaf and to in self._pair.hosts:
            self._pair.deliver(to, message)


def test_records_reach_the_follower_and_are_committed() -> None:
    pair = Pair(3)
    for index in (0, 1, 1):
        pair.append(index)
    pair.clock.settle()
    assert pair.ends() == [(1, 1), (2, 2), (0, 0)]
    for key, watermark in zip(pair.keys, (1, 2, 0), strict=True):
        assert pair.at(LEADER, key).replica.high_watermark == watermark
        assert pair.at(FOLLOWER, key).replica.high_watermark == watermark


def test_only_what_is_new_travels() -> None:
    pair = Pair(50)
    assert [len(ask.items) for ask in pair.asks()] == [50]
    pair.said.clear()
    pair.append(7)
    pair.clock.settle()
    assert all(len(ask.items) == 1 and ask.since for ask in pair.asks())
    assert {part.key for answer in pair.answers() for part in answer.parts} == {("t", 7)}


def test_a_quiet_ask_is_answered_empty_after_a_while_and_asked_again() -> None:
    pair = Pair(2)
    pair.said.clear()
    pair.clock.advance(3 * (MAX_WAIT_MS + TICK_MS))
    assert 2 <= len(pair.answers()) <= 3
    assert not any(answer.parts or answer.error for answer in pair.answers())
    assert not any(ask.items for ask in pair.asks())


def test_what_arrives_together_leaves_together() -> None:
    pair = Pair(4)
    pair.said.clear()
    for index in range(4):
        pair.append(index)
    pair.clock.settle()
    assert len(pair.answers()[0].parts) == 4


def test_a_follower_that_asked_before_it_registered_asks_again_at_once() -> None:
    """Its registration ends what an earlier run of it asked. Its own ask may stand there already; if that was
    dropped without a word, it would hear nothing before it gives the answer up.
    """
    pair = Pair(2)
    pair.said.clear()
    pair.hosts[LEADER].broker_restarted(FOLLOWER)
    pair.append(0)
    pair.clock.settle()
    assert [answer.error for answer in pair.answers()][:1] == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND]
    assert pair.ends() == [(1, 1), (0, 0)]


def test_a_lost_answer_is_asked_for_again() -> None:
    pair = Pair(2)
    pair.deaf = True
    pair.append(0)
    pair.append(1)
    pair.clock.settle()
    pair.deaf = False
    assert pair.ends() == [(1, 0), (1, 0)]
    pair.clock.advance(TIMEOUT_MS + 2 * TICK_MS)
    assert pair.ends() == [(1, 1), (1, 1)]


@pytest.mark.parametrize("round_trip_ms", [300, 600, 900, 2000, 4000])
def test_however_far_away_the_leader_is_its_follower_catches_up(round_trip_ms: int) -> None:
    pair = Pair(2)
    pair.one_way_ms = round_trip_ms // 2
    pair.append(0)
    pair.append(1)
    pair.clock.advance(4 * round_trip_ms + 2 * TIMEOUT_MS)
    assert pair.ends() == [(1, 1), (1, 1)]
    for _ in range(3):
        # From now on it knows how long the way is.
        pair.append(0)
        pair.clock.advance(2 * round_trip_ms + MAX_WAIT_MS + 2 * TICK_MS)
        assert pair.ends()[0][0] == pair.ends()[0][1]


def test_patience_ends_with_the_long_way() -> None:
    pair = Pair()
    pair.one_way_ms = 1000
    pair.append()
    pair.clock.advance(10_000)
    assert pair.ends() == [(1, 1)]
    pair.one_way_ms = 0
    pair.append()
    pair.clock.advance(3000)
    pair.deaf = True
    pair.append()
    pair.clock.settle()
    pair.deaf = False
    pair.clock.advance(TIMEOUT_MS + 2 * TICK_MS)
    assert pair.ends() == [(3, 3)]


def test_over_a_thin_line_less_is_asked_for_at_a_time() -> None:
    """What one answer may carry would take longer than anybody waits."""
    pair = Pair()
    pair.deaf = True
    for _ in range(20):
        pair.append(value=bytes(1 << 20))
    pair.clock.settle()
    pair.deaf = False
    pair.bytes_per_ms = 1000
    pair.clock.advance(60_000)
    assert pair.ends() == [(20, 20)]


def test_a_leader_that_has_forgotten_is_asked_completely() -> None:
    pair = Pair(3)
    pair.hosts[LEADER].fetch_server.stop()
    pair.said.clear()
    pair.append(2)
    pair.clock.advance(TIMEOUT_MS + 2 * TICK_MS)
    assert pair.ends()[2] == (1, 1)
    assert any(ask.since == 0 and len(ask.items) == 3 for ask in pair.asks())


def test_an_ask_that_builds_on_something_unknown_is_refused() -> None:
    pair = Pair()
    pair.said.clear()
    pair.hosts[LEADER].receive(FetchAsk(FOLLOWER, 7, 9, 8, [], [], MAX_WAIT_MS, 1 << 20))
    (answer,) = pair.answers()
    assert (answer.generation, answer.error) == (9, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def test_an_answer_counts_once() -> None:
    """The same answer again, when the follower's log ends again where it did then, changes nothing."""
    pair = Pair()
    pair.append()
    pair.clock.settle()
    first = next(answer for answer in pair.answers() if answer.parts)
    follower = pair.at(FOLLOWER, pair.keys[0])
    before = follower.log.end_offset
    pair.deliver(FOLLOWER, first)
    pair.deliver(FOLLOWER, first)
    pair.clock.settle()
    assert follower.log.end_offset == before


def test_a_later_epoch_of_the_same_leader_begins_anew() -> None:
    pair = Pair(2)
    pair.append(0)
    pair.clock.settle()
    pair.begin_epoch(1)
    pair.append(0)
    pair.append(1)
    pair.clock.advance(200)
    assert pair.ends() == [(2, 2), (1, 1)]
    assert pair.at(FOLLOWER, pair.keys[0]).replica.high_watermark == 2


def test_a_former_leader_tells_who_still_waits() -> None:
    pair = Pair()
    pair.said.clear()
    pair.at(LEADER, pair.keys[0]).follow(5, FOLLOWER, (1, 2), 5)
    pair.clock.settle()
    (part,) = pair.answers()[0].parts
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


def test_an_answer_to_an_earlier_run_of_the_follower_is_not_taken() -> None:
    """That run held a committed record where this one, after a power failure, holds another."""
    pair = Pair()
    pair.deaf = True
    key = pair.keys[0]
    follower = pair.at(FOLLOWER, key)
    follower.log.append_batches(memoryview(encode_batch([Record(0, NOW_MS, None, b"old", ())])), NOW_MS)
    generation = pair.asks()[-1].generation + 1000  # They begin anywhere.
    part = FetchPart(key, follower.log.end_offset, epoch=0, high_watermark=1, log_start_offset=0)
    pair.hosts[FOLLOWER].receive(FetchGot(LEADER, generation, ErrorCode.NONE, [part]))
    assert follower.replica.high_watermark == 0


def test_a_deleted_beginning_reaches_the_follower() -> None:
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    leader, follower = (pair.at(me, pair.keys[0]) for me in (LEADER, FOLLOWER))
    leader.deletions.delete_before(2)
    pair.clock.settle()
    assert follower.log.start_offset == 2


def test_a_deletion_lasts_when_all_that_may_lead_have_heard_of_it() -> None:
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    leader = pair.at(LEADER, pair.keys[0])
    pair.deaf = True
    leader.deletions.delete_before(2)
    pair.clock.settle()
    assert leader.deletions.low_watermark == 0
    leader.lead(0, (1, 2), (1,), 1)  # The follower has left, and holds everything committed.
    leader.successors.complete = frozenset({FOLLOWER})
    assert leader.deletions.low_watermark == 0
    leader.successors.complete = frozenset()
    assert leader.deletions.low_watermark == 2


@pytest.mark.parametrize("me", [LEADER, FOLLOWER], ids=["leader", "follower"])
def test_a_deletion_lasts_when_it_is_recorded(me: int) -> None:
    """A disk refuses a name. The follower tries again after a pause, although its leader responds at once."""
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    leader, follower = (pair.at(each, pair.keys[0]) for each in (LEADER, FOLLOWER))
    pair.disks[me].failing["create"] = EIO
    leader.deletions.delete_before(2)
    before = len(pair.asks())
    pair.clock.settle()
    pair.clock.advance(10 * BACKOFF_MS)
    assert len(pair.asks()) - before <= 11
    assert (leader.log.start_offset, follower.log.start_offset) == (2, 2)
    assert leader.deletions.low_watermark == 0
    pair.disks[me].failing.clear()
    pair.clock.advance(4 * BACKOFF_MS)
    assert leader.log.keep_start()
    assert leader.deletions.low_watermark == 2


def test_a_beginning_that_expired_reaches_a_follower_without_new_records() -> None:
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    leader, follower = (pair.at(me, pair.keys[0]) for me in (LEADER, FOLLOWER))
    leader.log.advance_start(2)  # As retention does.
    leader.begins_later()
    pair.clock.settle()
    assert follower.log.start_offset == 2
    assert leader.deletions.low_watermark == 2


def test_a_large_backlog_comes_in_several_answers() -> None:
    pair = Pair(2)
    pair.deaf = True
    for _ in range(30):
        pair.append(0, b"x" * 400_000)
    pair.append(1)
    pair.deaf = False
    pair.clock.advance(2 * TIMEOUT_MS)
    assert pair.ends() == [(30, 30), (1, 1)]
    sizes = [sum(part.records.size for part in answer.parts if part.records) for answer in pair.answers()]
    assert max(sizes) <= 12 << 20


def test_quiet_partitions_cost_the_clock_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(20)
    for index in range(20):
        pair.append(index)
    pair.clock.advance(10 * TICK_MS)
    ticked: list[int] = []
    original = Replica.tick

    def tick(self: Replica, now_ms: int) -> Any:
        ticked.append(self.me)
        return original(self, now_ms)

    monkeypatch.setattr(Replica, "tick", tick)
    pair.clock.advance(50 * TICK_MS)
    assert ticked == []


def test_a_member_that_was_quiet_for_long_is_not_late_with_the_first_record() -> None:
    pair = Pair()
    pair.append()
    pair.clock.advance(60_000)
    pair.deaf = True
    pair.append()
    pair.clock.advance(5 * TICK_MS)
    assert pair.at(LEADER, pair.keys[0]).replica.proposals.pending is None


class TestConfirming:
    def test_an_ask_tells_which_answer_the_follower_has(self) -> None:
        pair = Pair()
        pair.append()
        pair.clock.advance(50)
        first, *_, newest = pair.asks()
        assert first.heard == 0
        assert newest.heard == pair.answers()[-1].generation

    def test_what_was_under_way_confirms_nothing_newer(self) -> None:
        """The follower's next ask crosses the answer: it does not know that answer yet."""
        pair = Pair()
        server = pair.hosts[LEADER].fetch_server
        (standing,) = server._sessions.values()
        pair.clock.advance(20)
        asked_ms, generation = pair.clock.uptime_ms(), standing.generation
        ask = pair.asks()[-1]
        server._respond_to_session(standing, [])
        crossing = ask._replace(generation=generation + 1, since=generation, items=[], heard=0)
        server.ask(crossing)
        assert standing.confirmed_ms < asked_ms
        server.ask(crossing._replace(generation=generation + 2, since=generation + 1, heard=generation))
        assert standing.confirmed_ms == asked_ms

    def test_who_never_says_so_costs_no_memory(self) -> None:
        pair = Pair()
        server = pair.hosts[LEADER].fetch_server
        (standing,) = server._sessions.values()
        for number in range(1000):
            standing.generation = number
            server._respond_to_session(standing, [])
        assert len(standing.answered) <= 100


class TestSuccessors:
    """Who is cut off from the controllers serves on while everybody who could replace it follows it."""

    def test_a_quiet_follower_still_follows(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.clock.advance(5000)
        assert leader.successors.all_follow()

    def test_under_load_too(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.clock.advance(400)
        for _ in range(20):
            pair.append()
            pair.clock.advance(7)
            assert leader.successors.all_follow()

    def test_not_one_that_is_silent(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.deaf = True
        pair.clock.advance(3000)
        assert not leader.successors.all_follow()

    def test_not_one_that_has_turned_to_somebody_else(self) -> None:
        pair = Pair(2)
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.at(FOLLOWER, pair.keys[0]).follow(3, 7, (1, 2), 3)
        pair.clock.advance(3000)
        assert not leader.successors.all_follow()
        other = pair.at(LEADER, pair.keys[1])
        other.successors.candidates = frozenset({FOLLOWER})
        assert other.successors.all_follow()

    def test_what_all_of_them_hold(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        assert leader.successors.held_by_all() == 0
        pair.append()
        pair.clock.advance(400)
        held = leader.log.end_offset
        assert leader.successors.held_by_all() == held
        pair.deaf = True
        pair.append()
        pair.clock.advance(400)
        assert leader.successors.held_by_all() == held < leader.log.end_offset

    def test_one_that_may_be_forced_to_lead_counts(self) -> None:
        """Nothing was heard of it, and it is no member."""
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.lead(0, (1, 2, 3), (1, 2), 1)
        pair.append()
        pair.clock.advance(400)
        assert leader.successors.held_by_all() == leader.log.end_offset
        assert leader.successors.held_by_all(by_hand=True) == 0

    def test_nobody_can_replace_the_last_one(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        leader.lead(1, (1, 2), (1,), 1)
        assert leader.successors.all_follow()

    def test_not_one_that_said_so_long_ago(self) -> None:
        """The leader was frozen: what has waited in its socket is no news."""
        pair = Pair()
        leader, server = pair.at(LEADER, pair.keys[0]), pair.hosts[LEADER].fetch_server
        leader.successors.candidates = frozenset({FOLLOWER})
        pair.clock.advance(5000)
        (standing,) = server._sessions.values()
        ask, generation = pair.asks()[-1], standing.generation
        pair.deaf = True
        pair.clock.advance(3000)
        server.ask(ask._replace(generation=generation + 1, since=generation, items=[]))
        assert pair.clock.uptime_ms() - standing.heard_ms < 10
        assert not leader.successors.all_follow()

    def certain(self, pair: Pair) -> list[bool]:
        """What is said of the leader, later."""
        told: list[bool] = []
        leader = pair.at(LEADER, pair.keys[0])
        leader.successors.candidates = frozenset({FOLLOWER})
        leader.successors.when_all_follow(told.append)
        return told

    def test_one_round_trip_makes_it_certain(self) -> None:
        pair = Pair()
        pair.clock.advance(5000)
        before = len(pair.asks())
        told = self.certain(pair)
        assert told == []
        pair.clock.advance(50)
        assert told == [True]
        assert len(pair.asks()) == before + 1, "it was prompted"
        pair.clock.advance(2000)
        assert told == [True]

    def test_under_load_it_becomes_certain(self) -> None:
        pair = Pair()
        pair.one_way_ms = 5
        pair.clock.advance(1000)
        told = self.certain(pair)
        for _ in range(20):
            pair.append()
            pair.clock.advance(2)
        assert told == [True]

    def test_an_ask_that_was_under_way_makes_nothing_certain(self) -> None:
        pair = Pair()
        server = pair.hosts[LEADER].fetch_server
        pair.clock.advance(5000)
        (standing,) = server._sessions.values()
        ask, generation = pair.asks()[-1], standing.generation
        pair.deaf = True
        told = self.certain(pair)
        server.ask(ask._replace(generation=generation + 1, since=generation, items=[]))
        assert told == []
        pair.clock.advance(1500)
        assert told == [False]

    def test_a_follower_that_has_turned_away_makes_nothing_certain(self) -> None:
        pair = Pair(2)
        pair.clock.advance(1000)
        pair.at(FOLLOWER, pair.keys[0]).follow(3, 7, (1, 2), 3)
        told = self.certain(pair)
        pair.clock.advance(1500)
        assert told == [False]

    def test_who_has_no_successors_is_certain(self) -> None:
        pair = Pair()
        told: list[bool] = []
        leader = pair.at(LEADER, pair.keys[0])
        leader.lead(1, (1, 2), (1,), 1)
        leader.successors.when_all_follow(told.append)
        assert told == [True]

    def test_before_it_has_heard_anything(self) -> None:
        pair = Pair()
        leader = pair.at(LEADER, pair.keys[0])
        assert not leader.successors.all_follow()
        pair.clock.advance(400)
        assert leader.successors.all_follow()


def forget_surety(pair: Pair) -> ReplicaDriver:
    """As after a power failure."""
    follower = pair.at(FOLLOWER, pair.keys[0])
    follower.replica.watermark.log_confirmed = False
    assert follower.replica.readable_end_offset == 0
    return follower


def test_who_has_everything_is_sure_when_its_ask_stands() -> None:
    pair = Pair(2)
    pair.append()
    pair.clock.settle()
    follower = forget_surety(pair)
    pair.begin_epoch(1)
    pair.clock.advance(MAX_WAIT_MS + 2 * TICK_MS)
    assert follower.replica.watermark.log_confirmed
    assert follower.replica.readable_end_offset == 1


def test_an_answer_to_another_ask_makes_nobody_sure() -> None:
    """The one to its own ask may have said where the logs part, and be lost."""
    pair = Pair(2)
    pair.append()
    pair.clock.settle()
    follower = forget_surety(pair)
    pair.begin_epoch(1)
    [loop] = pair.hosts[FOLLOWER]._loops.values()
    asked = loop._asked[follower]
    loop._agree(asked + 1)
    assert not follower.replica.watermark.log_confirmed
    loop._agree(asked)
    assert follower.replica.watermark.log_confirmed


def test_a_follower_begins_where_its_leader_does_before_it_commits() -> None:
    pair = Pair()
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    leader, follower = pair.at(LEADER, pair.keys[0]), pair.at(FOLLOWER, pair.keys[0])
    pair.begins.clear()
    leader.log.advance_start(2)
    pair.append()
    pair.clock.settle()
    assert follower.replica.high_watermark == 4
    assert pair.begins == [2]


def test_where_replicas_vote_a_deletion_is_a_record() -> None:
    pair = Pair()
    leader, follower = (pair.at(me, pair.keys[0]) for me in (LEADER, FOLLOWER))
    leader.adopt(MODES["quorum"])
    follower.adopt(MODES["quorum"])
    for _ in range(3):
        pair.append()
    pair.clock.settle()
    assert leader.deletions.delete_before(2) == 4
    assert (leader.log.start_offset, leader.replica.high_watermark) == (2, 3)  # Nobody else has it yet.
    pair.clock.settle()
    assert leader.replica.high_watermark == 4
    assert (follower.log.start_offset, follower.log.end_offset) == (2, 4)
    assert leader.deletions.delete_before(2) == leader.log.end_offset == 4  # It is there already.


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
