"""The elections of one node's replicas: their clocks, their messages, and who was heard of.

Nothing is done for an election while nothing happens to it. Each waits in a heap for its deadline, and only
then it is asked what has become of it: a follower's leader, and a leader's voters, were heard whenever the
one ask that stands between their two nodes was answered or renewed, however many partitions share it. So a
thousand quiet partitions cost a thousand looks in a second at most, and no message of their own.

When a node dies, all replicas that followed it ask for votes together: the chance that keeps replicas from
asking at the same time is drawn once for all of them, and what goes to one node goes in one message.
"""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count

from tidelog.replication.attachments.voter import Elected
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import FOREVER_MS, NEVER_MS, ElectionState
from tidelog.replication.fetch_server import FetchServer
from tidelog.replication.fetching import FetchLoop
from tidelog.replication.messages import LeaderBegan, PartitionKey, Peers, StandNow, VoteAnswered, VoteAsked
from tidelog.replication.votes import Tail, VoteGot
from tidelog.services import Services
from tidelog.types import NO_BROKER

TICK_MS = 20
NO_TAIL = Tail(-1, 0)


class Voting:
    def __init__(
        self,
        me: int,
        driver: Mapping[PartitionKey, ReplicaDriver],
        loops: Mapping[int, FetchLoop],
        serving: FetchServer,
        services: Services,
        peers: Peers,
        chance: Callable[[], float],
    ) -> None:
        self._me = me
        self._driver = driver
        self._loops = loops
        self._serving = serving
        self._services = services
        self._peers = peers
        self._chance = chance
        self._voters: dict[ReplicaDriver, Elected] = {}
        self._heap: list[tuple[int, int, ReplicaDriver]] = []
        self._entries: dict[ReplicaDriver, int] = {}  # The earliest deadline under which each is in the heap.
        self._order = count()
        self._stalled_ms = NEVER_MS  # When this process last stood still.

    def add(self, driver: ReplicaDriver, voter: Elected) -> None:
        self._voters[driver] = voter
        self.moved(driver)

    def remove(self, driver: ReplicaDriver) -> None:
        self._voters.pop(driver, None)
        self._entries.pop(driver, None)

    # --- the clock ------------------------------------------------------------------------------------------

    def moved(self, driver: ReplicaDriver) -> None:
        """Something happened to its election: its deadline may be an earlier one."""
        voter = self._voters.get(driver)
        if voter is None or voter.election.retired:
            return
        election = voter.election
        if election.deadline_ms < self._entries.get(driver, FOREVER_MS):
            self._push(driver, election.deadline_ms)

    def _push(self, driver: ReplicaDriver, deadline_ms: int) -> None:
        self._entries[driver] = deadline_ms
        heappush(self._heap, (deadline_ms, next(self._order), driver))

    def tick(self, now_ms: int, *, stalled: bool) -> None:
        if stalled:
            self._stalled_ms = now_ms
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            deadline_ms, _, driver = heappop(heap)
            if self._entries.get(driver) == deadline_ms:
                del self._entries[driver]
                self.look_at(driver, now_ms)

    def look_at(self, driver: ReplicaDriver, now_ms: int) -> None:
        voter = self._voters.get(driver)
        if voter is None or driver.closed:
            return
        election = voter.election
        self._refresh(driver, voter)
        if now_ms - self._stalled_ms < election.timing.stall_grace_ms:
            election.stalled(self._stalled_ms)
        if election.deadline_ms <= now_ms:
            # A leader only counts whom it hears; how long its log is does not matter for that.
            tail = NO_TAIL if election.state is ElectionState.LEADER else driver.tail
            effects = election.tick(now_ms, self._chance(), tail)
            if effects:
                voter.elect(effects)
        if driver not in self._entries and not election.retired and driver in self._voters:
            self._push(driver, max(election.deadline_ms, now_ms + 1))

    def refresh(self, driver: ReplicaDriver) -> None:
        """Before an election is asked whom it hears."""
        voter = self._voters.get(driver)
        if voter is not None:
            self._refresh(driver, voter)
            self._serving.note_alive(driver)

    def _refresh(self, driver: ReplicaDriver, voter: Elected) -> None:
        """Whom has it heard of meanwhile?"""
        election = voter.election
        if election.state is ElectionState.FOLLOWER:
            loop = self._loops.get(election.leader)
            heard_ms = -1 if loop is None else loop.heard_ms(driver)
            if heard_ms > max(election.leader_heard_ms, election.doubted_ms):
                election.leader_heard(election.leader, election.epoch, heard_ms)
        elif election.state is ElectionState.LEADER:
            self._serving.refresh(driver, voter)
            if driver.snapshots.stand_for_start:
                self._serving.note_alive(driver)

    # --- leaders that are lost ------------------------------------------------------------------------------

    def peer_lost(self, peer: int, now_ms: int) -> None:
        loop = self._loops.get(peer)
        if loop is not None:
            chance = self._chance()
            for driver in loop.lost(now_ms):
                self.leader_lost(driver, peer, now_ms, chance)

    def leader_lost(
        self, driver: ReplicaDriver, leader: int, now_ms: int, chance: float | None = None
    ) -> None:
        """The next tick would do, but everybody's ticks are far apart, and the short grace is meant to be
        kept: whoever asks first is elected.
        """
        voter = self._voters.get(driver)
        if voter is None:
            return
        election = voter.election
        election.leader_lost(leader, now_ms, self._chance() if chance is None else chance)
        self.moved(driver)
        delay_ms = election.deadline_ms - now_ms
        if delay_ms < TICK_MS * 2:
            self._services.later(max(delay_ms, 0), lambda: self._look_in_time(driver))

    def _look_in_time(self, driver: ReplicaDriver) -> None:
        self.look_at(driver, self._services.uptime_ms())

    def leader_heard(self, driver: ReplicaDriver, leader: int, epoch: int) -> None:
        voter = self._voters.get(driver)
        if voter is not None and leader != NO_BROKER:
            voter.elect(voter.election.leader_heard(leader, epoch, self._services.uptime_ms()))

    def leader_named(self, driver: ReplicaDriver, leader: int, epoch: int) -> None:
        voter = self._voters.get(driver)
        if voter is None or epoch < voter.election.epoch:
            return
        now_ms, election = self._services.uptime_ms(), voter.election
        if leader != NO_BROKER:
            voter.elect(election.leader_named(leader, epoch, now_ms))
        elif epoch == election.epoch:
            self.leader_lost(driver, election.leader, now_ms)  # It has resigned.

    # --- messages -------------------------------------------------------------------------------------------

    def asked(self, asked: VoteAsked) -> None:
        voter = self._voter(asked.key)
        if voter is None or voter.closed:
            # A request with the questions of many partitions is answered as a whole: no answer here would
            # hold back all the others.
            got = VoteGot(self._me, asked.ask.epoch, False, NO_BROKER, asked.ask.pre)
            self._peers.send(asked.sender, VoteAnswered(self._me, asked.key, got))
        elif asked.sender == asked.ask.candidate:
            driver = self._driver[asked.key]
            self._refresh(driver, voter)
            now_ms = self._services.uptime_ms()
            voter.elect(voter.election.vote_asked(asked.ask, now_ms, self._chance(), driver.tail))

    def _voter(self, key: PartitionKey) -> Elected | None:
        """That of a replica here; None where there is no such replica, or it does not vote."""
        driver = self._driver.get(key)
        return None if driver is None else self._voters.get(driver)

    def answered(self, answered: VoteAnswered) -> None:
        voter = self._voter(answered.key)
        if voter is not None:
            now_ms, tail = self._services.uptime_ms(), self._driver[answered.key].tail
            voter.elect(voter.election.vote_got(answered.got, now_ms, self._chance(), tail))

    def began(self, began: LeaderBegan) -> None:
        driver = self._driver.get(began.key)
        if driver is not None:
            self.leader_heard(driver, began.sender, began.epoch)

    def stand(self, stand: StandNow) -> None:
        """The leader hands over to us."""
        voter = self._voter(stand.key)
        if voter is not None and not voter.closed:
            now_ms, tail = self._services.uptime_ms(), self._driver[stand.key].tail
            voter.elect(voter.election.stand_now(stand.sender, stand.epoch, now_ms, self._chance(), tail))
