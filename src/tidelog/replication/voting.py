"""The elections of one node's replicas: their deadlines, their messages, and when other nodes were last
heard.

An election costs nothing while nothing happens to it. Each waits in a heap for its deadline and is updated
only then: a follower's leader, and a leader's voters, count as heard whenever the one pending fetch request
between their two nodes was answered or renewed, however many partitions share it. So a thousand idle
partitions cost at most a thousand checks per second, and no messages of their own.

When a node dies, all replicas that followed it ask for votes together. The random delay that keeps replicas
from asking at the same time is drawn once for all of them, and the requests to one node share a message.
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
        fetch_server: FetchServer,
        services: Services,
        peers: Peers,
        chance: Callable[[], float],
    ) -> None:
        self._me = me
        self._driver = driver
        self._loops = loops
        self._fetch_server = fetch_server
        self._services = services
        self._peers = peers
        self._chance = chance
        self._voters: dict[ReplicaDriver, Elected] = {}
        self._heap: list[tuple[int, int, ReplicaDriver]] = []
        self._entries: dict[ReplicaDriver, int] = {}  # The earliest deadline with which each is in the heap.
        self._order = count()
        self._stalled_ms = NEVER_MS  # when this process was last stalled

    def add(self, driver: ReplicaDriver, voter: Elected) -> None:
        self._voters[driver] = voter
        self.moved(driver)

    def remove(self, driver: ReplicaDriver) -> None:
        self._voters.pop(driver, None)
        self._entries.pop(driver, None)

    # --- the clock ------------------------------------------------------------------------------------------

    def moved(self, driver: ReplicaDriver) -> None:
        """Its election has changed: its deadline may be earlier."""
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
            # A leader only counts the voters that it hears, so the end of its log does not matter here.
            tail = NO_TAIL if election.state is ElectionState.LEADER else driver.tail
            effects = election.tick(now_ms, self._chance(), tail)
            if effects:
                voter.elect(effects)
        if driver not in self._entries and not election.retired and driver in self._voters:
            self._push(driver, max(election.deadline_ms, now_ms + 1))

    def refresh(self, driver: ReplicaDriver) -> None:
        """Call this before using which nodes an election has heard."""
        voter = self._voters.get(driver)
        if voter is not None:
            self._refresh(driver, voter)
            self._fetch_server.note_alive(driver)

    def _refresh(self, driver: ReplicaDriver, voter: Elected) -> None:
        """Tell an election when its leader or its voters were last heard."""
        election = voter.election
        if election.state is ElectionState.FOLLOWER:
            loop = self._loops.get(election.leader)
            heard_ms = -1 if loop is None else loop.heard_ms(driver)
            if heard_ms > max(election.leader_heard_ms, election.doubted_ms):
                election.still_heard(heard_ms)
        elif election.state is ElectionState.LEADER:
            self._fetch_server.refresh(driver, voter)
            if voter.notes_fetches:
                self._fetch_server.note_alive(driver)

    # --- lost leaders ---------------------------------------------------------------------------------------

    def peer_lost(self, peer: int, now_ms: int) -> None:
        loop = self._loops.get(peer)
        if loop is not None:
            chance = self._chance()
            for driver in loop.lost(now_ms):
                self.leader_lost(driver, peer, now_ms, chance)

    def leader_lost(
        self, driver: ReplicaDriver, leader: int, now_ms: int, chance: float | None = None
    ) -> None:
        """Do not wait for the next tick: all nodes tick at long intervals, and the short grace period should
        be exact, because the first candidate is elected.
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

    def leader_hinted(self, driver: ReplicaDriver, leader: int, epoch: int) -> None:
        voter = self._voters.get(driver)
        if voter is None or epoch < voter.election.epoch:
            return
        now_ms, election = self._services.uptime_ms(), voter.election
        if leader != NO_BROKER:
            voter.elect(election.leader_hinted(leader, epoch, now_ms))
        elif epoch == election.epoch:
            self.leader_lost(driver, election.leader, now_ms)  # The leader has resigned.

    # --- messages -------------------------------------------------------------------------------------------

    def asked(self, asked: VoteAsked) -> None:
        voter = self._voter(asked.key)
        if voter is None or voter.closed:
            # A request with vote requests for many partitions is answered as a whole: a missing response here
            # would delay all the others.
            got = VoteGot(self._me, asked.ask.epoch, False, NO_BROKER, asked.ask.pre)
            self._peers.send(asked.sender, VoteAnswered(self._me, asked.key, got))
        elif asked.sender == asked.ask.candidate:
            driver = self._driver[asked.key]
            self._refresh(driver, voter)
            now_ms = self._services.uptime_ms()
            voter.elect(voter.election.vote_asked(asked.ask, now_ms, self._chance(), driver.tail))

    def _voter(self, key: PartitionKey) -> Elected | None:
        """The voter of a replica on this node; None if there is no such replica, or it does not vote."""
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
        """The leader hands over to this replica."""
        voter = self._voter(stand.key)
        if voter is not None and not voter.closed:
            now_ms, tail = self._services.uptime_ms(), self._driver[stand.key].tail
            voter.elect(voter.election.stand_now(stand.sender, stand.epoch, now_ms, self._chance(), tail))
