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

from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import FOREVER_MS, NEVER_MS
from tidelog.replication.fetch_server import FetchServer
from tidelog.replication.fetching import FetchLoop
from tidelog.replication.messages import (
    LeaderBegan,
    PartitionKey,
    Peers,
    StandNow,
    VoteRequested,
    VoteResponded,
)
from tidelog.replication.votes import VoteResponse
from tidelog.services import Services
from tidelog.types import NO_BROKER

TICK_MS = 20


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
        self._heap: list[tuple[int, int, ReplicaDriver]] = []
        self._entries: dict[ReplicaDriver, int] = {}  # The earliest deadline with which each is in the heap.
        self._order = count()
        self._stalled_ms = NEVER_MS  # when this process was last stalled

    def add(self, driver: ReplicaDriver) -> None:
        """Its voter is attached."""
        self.moved(driver)

    def remove(self, driver: ReplicaDriver) -> None:
        self._entries.pop(driver, None)

    # --- the clock ------------------------------------------------------------------------------------------

    def moved(self, driver: ReplicaDriver) -> None:
        """Its election has changed: its deadline may be earlier."""
        deadline_ms = driver.voter.deadline_ms
        if deadline_ms < self._entries.get(driver, FOREVER_MS):
            self._push(driver, deadline_ms)

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
        if driver.closed:
            return
        driver.voter.refresh(self)
        driver.voter.look(now_ms, self._stalled_ms, self._chance)
        deadline_ms = driver.voter.deadline_ms
        if driver not in self._entries and deadline_ms < FOREVER_MS:
            self._push(driver, max(deadline_ms, now_ms + 1))

    def refresh(self, driver: ReplicaDriver) -> None:
        """Call this before using which nodes an election has heard."""
        driver.voter.refresh(self)
        self.note_alive(driver)

    # --- Hearing --------------------------------------------------------------------------------------------

    def leader_heard_ms(self, driver: ReplicaDriver, leader: int) -> int:
        loop = self._loops.get(leader)
        return -1 if loop is None else loop.heard_ms(driver)

    def count_voters(self, driver: ReplicaDriver) -> None:
        self._fetch_server.refresh(driver)

    def note_alive(self, driver: ReplicaDriver) -> None:
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
        draw = self._chance if chance is None else lambda: chance
        delay_ms = driver.voter.leader_lost(leader, now_ms, draw) - now_ms
        self.moved(driver)
        if delay_ms < TICK_MS * 2:
            self._services.later(max(delay_ms, 0), lambda: self._look_in_time(driver))

    def _look_in_time(self, driver: ReplicaDriver) -> None:
        self.look_at(driver, self._services.uptime_ms())

    def leader_heard(self, driver: ReplicaDriver, leader: int, epoch: int) -> None:
        if leader != NO_BROKER:
            driver.voter.leader_heard(leader, epoch, self._services.uptime_ms())

    def leader_hinted(self, driver: ReplicaDriver, leader: int, epoch: int) -> None:
        now_ms = self._services.uptime_ms()
        if leader != NO_BROKER:
            driver.voter.leader_hinted(leader, epoch, now_ms)
            return
        newest_epoch, newest = driver.voter.newest_leader()
        if epoch == newest_epoch:
            self.leader_lost(driver, newest, now_ms)  # The leader has resigned.

    # --- messages -------------------------------------------------------------------------------------------

    def requested(self, requested: VoteRequested) -> None:
        driver, request = self._driver.get(requested.key), requested.request
        if driver is None or not driver.voter.may_vote:
            # A request with vote requests for many partitions is answered as a whole: a missing response here
            # would delay all the others.
            response = VoteResponse(self._me, request.epoch, False, NO_BROKER, request.pre)
            self._peers.send(requested.sender, VoteResponded(self._me, requested.key, response))
        elif requested.sender == request.candidate:
            driver.voter.refresh(self)
            driver.voter.vote_requested(request, self._services.uptime_ms(), self._chance)

    def responded(self, responded: VoteResponded) -> None:
        driver = self._driver.get(responded.key)
        if driver is not None:
            driver.voter.vote_responded(responded.response, self._services.uptime_ms(), self._chance)

    def began(self, began: LeaderBegan) -> None:
        driver = self._driver.get(began.key)
        if driver is not None:
            self.leader_heard(driver, began.sender, began.epoch)

    def stand(self, stand: StandNow) -> None:
        """The leader hands over to this replica."""
        driver = self._driver.get(stand.key)
        if driver is not None:
            driver.voter.stand_now(stand.sender, stand.epoch, self._services.uptime_ms(), self._chance)
