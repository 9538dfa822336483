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
from tidelog.replication.election import FOREVER_MS, NEVER_MS, State
from tidelog.replication.fetching import FetchLoop
from tidelog.replication.hosted import Hosted
from tidelog.replication.messages import LeaderBegan, PartitionKey, Peers, StandNow, VoteAnswered, VoteAsked
from tidelog.replication.serving import Serving
from tidelog.replication.votes import Tail, VoteGot
from tidelog.services import Services
from tidelog.types import NO_BROKER

TICK_MS = 20
NO_TAIL = Tail(-1, 0)


class Voting:
    def __init__(
        self,
        me: int,
        hosted: Mapping[PartitionKey, Hosted],
        loops: Mapping[int, FetchLoop],
        serving: Serving,
        services: Services,
        peers: Peers,
        chance: Callable[[], float],
    ) -> None:
        self._me = me
        self._hosted = hosted
        self._loops = loops
        self._serving = serving
        self._services = services
        self._peers = peers
        self._chance = chance
        self._voters: dict[Hosted, Elected] = {}
        self._heap: list[tuple[int, int, Hosted]] = []
        self._entries: dict[Hosted, int] = {}  # The earliest deadline under which each is in the heap.
        self._order = count()
        self._stalled_ms = NEVER_MS  # When this process last stood still.

    def add(self, hosted: Hosted, voter: Elected) -> None:
        self._voters[hosted] = voter
        self.moved(hosted)

    def remove(self, hosted: Hosted) -> None:
        self._voters.pop(hosted, None)
        self._entries.pop(hosted, None)

    # --- the clock ------------------------------------------------------------------------------------------

    def moved(self, hosted: Hosted) -> None:
        """Something happened to its election: its deadline may be an earlier one."""
        voter = self._voters.get(hosted)
        if voter is None or voter.election.retired:
            return
        election = voter.election
        if election.deadline_ms < self._entries.get(hosted, FOREVER_MS):
            self._push(hosted, election.deadline_ms)

    def _push(self, hosted: Hosted, deadline_ms: int) -> None:
        self._entries[hosted] = deadline_ms
        heappush(self._heap, (deadline_ms, next(self._order), hosted))

    def tick(self, now_ms: int, *, stalled: bool) -> None:
        if stalled:
            self._stalled_ms = now_ms
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            deadline_ms, _, hosted = heappop(heap)
            if self._entries.get(hosted) == deadline_ms:
                del self._entries[hosted]
                self.look_at(hosted, now_ms)

    def look_at(self, hosted: Hosted, now_ms: int) -> None:
        voter = self._voters.get(hosted)
        if voter is None or hosted.closed:
            return
        election = voter.election
        self._refresh(hosted, voter)
        if now_ms - self._stalled_ms < election.timing.settle_ms:
            election.stalled(self._stalled_ms)
        if election.deadline_ms <= now_ms:
            # A leader only counts whom it hears; how long its log is does not matter for that.
            tail = NO_TAIL if election.state is State.LEADER else hosted.tail
            effects = election.tick(now_ms, self._chance(), tail)
            if effects:
                voter.elect(effects)
        if hosted not in self._entries and not election.retired and hosted in self._voters:
            self._push(hosted, max(election.deadline_ms, now_ms + 1))

    def refresh(self, hosted: Hosted) -> None:
        """Before an election is asked whom it hears."""
        voter = self._voters.get(hosted)
        if voter is not None:
            self._refresh(hosted, voter)
            self._serving.note_alive(hosted)

    def _refresh(self, hosted: Hosted, voter: Elected) -> None:
        """Whom has it heard of meanwhile?"""
        election = voter.election
        if election.state is State.FOLLOWER:
            loop = self._loops.get(election.leader)
            heard_ms = -1 if loop is None else loop.heard_ms(hosted)
            if heard_ms > max(election.leader_heard_ms, election.doubted_ms):
                election.leader_heard(election.leader, election.epoch, heard_ms)
        elif election.state is State.LEADER:
            self._serving.refresh(hosted, voter)
            if hosted.snapshots.stand_for_start:
                self._serving.note_alive(hosted)

    # --- leaders that are lost ------------------------------------------------------------------------------

    def peer_lost(self, peer: int, now_ms: int) -> None:
        loop = self._loops.get(peer)
        if loop is not None:
            chance = self._chance()
            for hosted in loop.lost(now_ms):
                self.leader_lost(hosted, peer, now_ms, chance)

    def leader_lost(self, hosted: Hosted, leader: int, now_ms: int, chance: float | None = None) -> None:
        """The next tick would do, but everybody's ticks are far apart, and the short grace is meant to be
        kept: whoever asks first is elected.
        """
        voter = self._voters.get(hosted)
        if voter is None:
            return
        election = voter.election
        election.leader_lost(leader, now_ms, self._chance() if chance is None else chance)
        self.moved(hosted)
        delay_ms = election.deadline_ms - now_ms
        if delay_ms < TICK_MS * 2:
            self._services.later(max(delay_ms, 0), lambda: self._look_in_time(hosted))

    def _look_in_time(self, hosted: Hosted) -> None:
        self.look_at(hosted, self._services.uptime_ms())

    def leader_heard(self, hosted: Hosted, leader: int, epoch: int) -> None:
        voter = self._voters.get(hosted)
        if voter is not None and leader != NO_BROKER:
            voter.elect(voter.election.leader_heard(leader, epoch, self._services.uptime_ms()))

    def leader_named(self, hosted: Hosted, leader: int, epoch: int) -> None:
        voter = self._voters.get(hosted)
        if voter is None or epoch < voter.election.epoch:
            return
        now_ms, election = self._services.uptime_ms(), voter.election
        if leader != NO_BROKER:
            voter.elect(election.leader_named(leader, epoch, now_ms))
        elif epoch == election.epoch:
            self.leader_lost(hosted, election.leader, now_ms)  # It has resigned.

    # --- messages -------------------------------------------------------------------------------------------

    def asked(self, asked: VoteAsked) -> None:
        voter = self._voter(asked.key)
        if voter is None or voter.closed:
            # A request with the questions of many partitions is answered as a whole: no answer here would
            # hold back all the others.
            got = VoteGot(self._me, asked.ask.epoch, False, NO_BROKER, asked.ask.pre)
            self._peers.send(asked.sender, VoteAnswered(self._me, asked.key, got))
        elif asked.sender == asked.ask.candidate:
            hosted = self._hosted[asked.key]
            self._refresh(hosted, voter)
            now_ms = self._services.uptime_ms()
            voter.elect(voter.election.vote_asked(asked.ask, now_ms, self._chance(), hosted.tail))

    def _voter(self, key: PartitionKey) -> Elected | None:
        """That of a replica here; None where there is no such replica, or it does not vote."""
        hosted = self._hosted.get(key)
        return None if hosted is None else self._voters.get(hosted)

    def answered(self, answered: VoteAnswered) -> None:
        voter = self._voter(answered.key)
        if voter is not None:
            now_ms, tail = self._services.uptime_ms(), self._hosted[answered.key].tail
            voter.elect(voter.election.vote_got(answered.got, now_ms, self._chance(), tail))

    def began(self, began: LeaderBegan) -> None:
        hosted = self._hosted.get(began.key)
        if hosted is not None:
            self.leader_heard(hosted, began.sender, began.epoch)

    def stand(self, stand: StandNow) -> None:
        """The leader hands over to us."""
        voter = self._voter(stand.key)
        if voter is not None and not voter.closed:
            now_ms, tail = self._services.uptime_ms(), self._hosted[stand.key].tail
            voter.elect(voter.election.stand_now(stand.sender, stand.epoch, now_ms, self._chance(), tail))
