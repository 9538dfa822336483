"""Elections of many partitions on three nodes: cheap while nothing happens, together when something does."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import cast

import pytest

from tidelog.config import TopicConfig
from tidelog.log.log import Log
from tidelog.protocol.records import Record, encode_batch
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import Election
from tidelog.replication.host import Host
from tidelog.replication.limits import Limits
from tidelog.replication.messages import Message, VoteRequested, VoteResponded
from tidelog.replication.modes import MODES
from tidelog.replication.replica import Replica, Role
from tidelog.replication.voters import VoterSet
from tidelog.replication.votes import Ballot, Tail, Timing, VoteRequest
from tidelog.sim.disk import SimulatedDisk
from unit.replication.replica_pair import NOW_MS, Clock

NODES = (1, 2, 3)


class Ballots:
    """A disk that may be slow."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.slow = False
        self.waiting: list[Callable[[object], None]] = []

    def save(self, ballot: Ballot, saved: Callable[[object], None]) -> None:
        if self.slow:
            self.waiting.append(saved)
        else:
            self._clock.soon(lambda: saved(None))


class Three:
    def __init__(self, partitions: int) -> None:
        self.clock = Clock()
        self.said: list[tuple[int, int, Message]] = []
        self.dead: set[int] = set()
        self.hosts = {me: Host(me, self.clock, _Peers(self, me), lambda me=me: me / 10) for me in NODES}  # type: ignore[misc]
        self.ballots = {me: Ballots(self.clock) for me in NODES}
        for me, host in self.hosts.items():
            disk = SimulatedDisk(tells=False)
            disk.make_directory("data")
            for index in range(partitions):
                log = Log.open(disk, f"data/t-{index}", TopicConfig(), clean=False, now_ms=NOW_MS)
                replica = Replica(me, log, MODES["quorum"].policy, Limits(), replicas=NODES)
                election = Election(me, VoterSet.of(NODES), Ballot(), Timing(), 0, 0.5, None, 20 * me)
                driver = ReplicaDriver(("t", index), log, replica, self.clock, host)
                voter = Elected(driver, election, self.ballots[me])
                driver.attach(voter)
                driver.follow(0, -1, NODES, -1)
                host.add(driver)
                host.voting.add(driver)
            host.start()
        self.clock.settle()

    def voter(self, me: int) -> Elected:
        return cast(Elected, self.at(me).voter)

    def at(self, me: int, index: int = 0) -> ReplicaDriver:
        return self.hosts[me].drivers["t", index]

    def leaders(self) -> Counter[int]:
        return Counter(
            me
            for me in NODES
            if me not in self.dead
            for driver in self.hosts[me].drivers.values()
            if driver.replica.role is Role.LEADER
        )

    def kill(self, node: int) -> None:
        self.dead.add(node)
        self.hosts[node].stop()
        for me in NODES:
            if me not in self.dead:
                self.hosts[me].peer_lost(node)


class _Peers:
    def __init__(self, three: Three, me: int) -> None:
        self._three = three
        self._me = me

    def send(self, to: int, message: Message) -> None:
        three = self._three
        if self._me in three.dead or to in three.dead:
            return
        three.said.append((self._me, to, message))
        three.clock.soon(lambda: three.hosts[to].receive(message))


def test_the_one_that_stands_first_leads_and_its_successor_everything() -> None:
    three = Three(20)
    three.clock.advance(500)
    assert three.leaders() == {1: 20}
    three.kill(1)
    three.clock.advance(200)
    assert sum(three.leaders().values()) == 20
    assert set(three.leaders()) <= {2, 3}


def test_quiet_partitions_say_nothing_and_are_hardly_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    three = Three(50)
    three.clock.advance(1000)
    looks = 0
    original = Election.tick

    def tick(self: Election, now_ms: int, chance: float, tail: Tail) -> object:
        nonlocal looks
        looks += 1
        return original(self, now_ms, chance, tail)

    monkeypatch.setattr(Election, "tick", tick)
    before = len(three.said)
    three.clock.advance(3000)
    # One ask and its answer for each follower, a few times a second, however many partitions they share.
    assert len(three.said) - before <= 2 * 2 * (3000 // 300 + 2)
    assert looks <= 50 * 4 * 3 + 50  # Leaders count their voters; followers need no tick.
    assert three.leaders() == {1: 50}


def test_a_vote_ends_the_old_epoch_before_its_ballot_is_on_disk() -> None:
    """Or the voter would go on acknowledging, in the old epoch, what its candidate lacks."""
    three = Three(1)
    three.clock.advance(500)
    voter = three.at(2)
    assert voter.has_leader
    three.ballots[2].slow = True
    request = VoteRequest(voter.replica.epoch + 1, 3, voter.tail, pre=False)
    three.hosts[2].receive(VoteRequested(3, ("t", 0), request))
    assert (voter.replica.epoch, voter.replica.leader) == (request.epoch, -1)
    assert not any(isinstance(message, VoteResponded) for _, to, message in three.said if to == 3)


def test_who_has_no_such_replica_answers_all_the_same() -> None:
    """A request carries the questions of many partitions: one without an answer would hold back all."""
    three = Three(1)
    three.clock.advance(500)
    three.hosts[2].receive(VoteRequested(3, ("t", 99), VoteRequest(5, 3, Tail(1, 1), pre=True)))
    answer = three.said[-1][2]
    assert isinstance(answer, VoteResponded)
    assert (answer.key, answer.response.granted) == (("t", 99), False)


def test_who_has_forgotten_neither_votes_nor_stands() -> None:
    three = Three(1)
    three.clock.advance(500)
    for me in (2, 3):
        three.voter(me).election.set_forgot(me == 2)
    three.kill(1)
    three.clock.advance(5000)
    assert three.leaders() == {}
    three.voter(2).election.set_forgot(False)
    three.clock.advance(2000)
    assert sum(three.leaders().values()) == 1


def test_a_leader_hands_over_without_anybody_falling_silent() -> None:
    three = Three(1)
    three.clock.advance(500)
    leader = three.at(1)
    heir = three.hosts[3]
    voter, tail = three.voter(3), three.at(3).tail
    voter.elect(voter.election.stand_now(1, leader.replica.epoch, three.clock.ms, 0.5, tail))
    three.clock.advance(50)
    assert three.leaders() == {3: 1}
    assert heir.drivers["t", 0].replica.high_watermark == heir.drivers["t", 0].log.end_offset


class TestLateWinner:
    """Node 1 wins. It was behind when votes began, and did not hear of a deletion."""

    def three(self, *starts: int) -> Three:
        three = Three(1)
        for me, start in zip(NODES, starts, strict=True):
            log = three.at(me).log
            records = [Record(offset, NOW_MS, None, b"", ()) for offset in range(5)]
            log.append_batches(memoryview(encode_batch(records, leader_epoch=0)), NOW_MS)
            log.advance_start(start)
        return three

    def test_it_deletes_what_one_that_was_not_behind_has_deleted(self) -> None:
        three = self.three(0, 3, 1)
        three.voter(1).metadata_changed(0, -1, frozenset({2, 3}))
        three.kill(3)
        three.clock.advance(500)
        assert three.leaders() == {1: 1}
        assert (three.at(1).log.start_offset, three.at(1).replica.high_watermark) == (3, 6)

    @pytest.mark.parametrize(("informed", "start"), [({3}, 0), ((), 0)])
    def test_others_do_not_count(self, informed: Iterable[int], start: int) -> None:
        three = self.three(0, 3, 1)
        three.voter(1).metadata_changed(0, -1, frozenset(informed))
        three.kill(3)
        three.clock.advance(500)
        assert (three.leaders(), three.at(1).log.start_offset) == ({1: 1}, start)
