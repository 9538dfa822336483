"""How a replica gets its leader: appointed by the controllers, or elected by vote.

Messages that promise durability (a vote, a leadership) are sent after the sync that they need: an election's
effects wait in a queue behind the ballots that they follow from.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from tidelog.errors import StorageError, TidelogError
from tidelog.invariant import invariant
from tidelog.protocol.records import ControlType
from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.election import FOREVER_MS, NEVER_MS, Election, ElectionState
from tidelog.replication.listeners import Ballots, Hearing, QuorumFetcher
from tidelog.replication.progress import Progress
from tidelog.replication.votes import (
    Ballot,
    ElectionEffect,
    ElectionEffects,
    Follow,
    Lead,
    RequestVote,
    RespondToVote,
    SaveBallot,
    Tail,
    TellLeader,
    VoteRequest,
    VoteResponse,
)
from tidelog.types import NO_BROKER

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)

NO_TAIL = Tail(-1, 0)

Chance = Callable[[], float]
"""Draws a random number. Only an election that uses one draws it."""


class Appointed(Attachment):
    """The controllers appoint the leader; there are no votes."""

    slot: ClassVar[str] = "voter"
    # Whether a follower is identified by its registration: requests of an earlier process do not count.
    counts_registered_only: ClassVar[bool] = True
    # Whether it must know when its leader was last heard.
    watches_leader: ClassVar[bool] = False

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver
        self.directory: UUID | None = None  # our disk, where it matters
        self.seen: dict[int, QuorumFetcher] = {}  # used while replicas vote and this one leads
        self.notes_fetches = False  # whether the fetches of voters are recorded, too: where voters may change

    def counted(self, follower: int, directory: UUID | None, now_ms: int) -> int:
        """The replica for which a follower's fetch counts; -1: it may read, but acknowledges nothing."""
        return follower

    def counts(self, follower: int, directory: UUID | None) -> bool:
        """Whether this follower is a voter with this disk."""
        return False

    def confirmed(self, voter: int, confirmed_ms: int) -> None:
        """A voter is known to have followed until ``confirmed_ms``."""

    def confirmed_ms(self) -> int:
        """Until when it is certain that no other leader was elected."""
        return NEVER_MS

    @property
    def may_be_replaced(self) -> bool:
        """While leading: whether the voters may have elected another leader without our knowledge."""
        return False

    def began(self, voter: int, now_ms: int) -> None:
        """Another process of a voter begins to follow."""

    def followed_ms(self, at_least_ms: int) -> int:
        """The same, by voters whose process had already followed for ``at_least_ms`` then."""
        return NEVER_MS

    def note_fetch(self, sender: int, directory: UUID | None, offset: int, now_ms: int) -> None:
        """A node holds everything before ``offset``, with this disk."""

    def note_alive(self, sender: int, directory: UUID | None, now_ms: int) -> None:
        """A node still waits for new records."""

    def newest_leader(self) -> tuple[int, int]:
        """The newest (epoch, leader) that we know."""
        return self._driver.replica.epoch, self._driver.replica.leader

    # --- elections ------------------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int:
        """When the election must be looked at again; FOREVER_MS: not before it changes."""
        return FOREVER_MS

    @property
    def may_vote(self) -> bool:
        return False

    def refresh(self, hearing: Hearing) -> None:
        """Tell the election when its leader or its voters were last heard."""

    def look(self, now_ms: int, stalled_ms: int, chance: Chance) -> None:
        """The deadline may be over. ``stalled_ms``: when this process was last stalled."""

    def leader_heard(self, leader: int, epoch: int, now_ms: int) -> None: ...

    def leader_hinted(self, leader: int, epoch: int, now_ms: int) -> None: ...

    def leader_lost(self, leader: int, now_ms: int, chance: Chance) -> int:
        """Returns the deadline of the election."""
        return FOREVER_MS

    def vote_requested(self, request: VoteRequest, now_ms: int, chance: Chance) -> None: ...

    def vote_responded(self, response: VoteResponse, now_ms: int, chance: Chance) -> None: ...

    def stand_now(self, leader: int, epoch: int, now_ms: int, chance: Chance) -> None: ...

    def elect(self, effects: ElectionEffects) -> None:
        """Carry out an election's effects."""
        invariant(not effects, "there are elections only where replicas vote", self._driver.key)

    @property
    def is_forgetful(self) -> bool:
        """Whether the leader may lack records that we know to be committed, and that cannot be recovered."""
        return False

    def awaits_decision(self, epoch: int) -> bool:
        """Whether an operator may have decided on this epoch's leader without our metadata showing it yet."""
        return False

    def follower_restarted(self, broker: int, now_ms: int) -> None:
        self._driver.replica.restarted(broker, now_ms)


class Elected(Appointed):
    """The replicas vote."""

    # Voters do not depend on registrations: otherwise no controller could be elected.
    counts_registered_only = False
    watches_leader = True

    def __init__(
        self,
        driver: "ReplicaDriver",
        election: Election,
        ballots: Ballots,
        *,
        notes_fetches: bool = True,
        metadata_epoch: int | None = None,
        doubtful_epoch: int = -1,
        informed: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(driver)
        self.election = election
        self.directory = election.directory
        self.notes_fetches = notes_fetches
        self._ballots = ballots
        self._outbox: deque[ElectionEffect] = deque()
        self._saving = False
        # Up to this epoch voters may have acknowledged without a sync, though they sync now.
        self.doubtful_epoch = doubtful_epoch
        # The newest leader epoch in this broker's metadata; None: the metadata does not contain them.
        self.metadata_epoch = metadata_epoch
        # Replicas that have learned of every deletion from before votes began, if this one was behind then.
        self.informed = informed

    def metadata_changed(
        self, metadata_epoch: int, doubtful_epoch: int, informed: frozenset[int] = frozenset()
    ) -> None:
        """The metadata has this newest leader epoch, and doubts acknowledgements up to the other epoch.
        ``informed``: see the field.
        """
        self.metadata_epoch, self.doubtful_epoch = metadata_epoch, doubtful_epoch
        self.informed = informed

    def begin_voter_change(self) -> None:
        """While voters change, the leader must know what each of them holds."""
        self.notes_fetches = True

    def end_voter_change(self) -> None:
        """What was noted is no longer updated, so it would be stale at the next change of voters."""
        self.notes_fetches = False
        self.seen.clear()

    # --- fetching nodes -------------------------------------------------------------------------------------

    def counted(self, follower: int, directory: UUID | None, now_ms: int) -> int:
        election = self.election
        if not election.voters.counts(follower, directory):
            return NO_BROKER
        election.voter_heard(follower, now_ms)
        return follower

    def counts(self, follower: int, directory: UUID | None) -> bool:
        return self.election.voters.counts(follower, directory)

    def confirmed(self, voter: int, confirmed_ms: int) -> None:
        self.election.voter_confirmed(voter, confirmed_ms)

    def confirmed_ms(self) -> int:
        return self.election.confirmed_ms()

    def began(self, voter: int, now_ms: int) -> None:
        self.election.voter_began(voter, now_ms)

    def followed_ms(self, at_least_ms: int) -> int:
        return self.election.followed_ms(at_least_ms)

    @property
    def may_be_replaced(self) -> bool:
        """Voters that heard nothing of this leader for a while do not trust it any more. The time counts, not
        the state of the election: a process that was frozen takes requests before it looks at its deadlines.
        """
        election, listener = self.election, self._driver.listener
        others = election.voters.ids - {election.me}
        needed = election.voters.majority - (len(election.voters.ids) - len(others))
        if election.state is not ElectionState.LEADER or needed <= 0:
            return False
        followed = sorted((listener.followed_until_ms(self._driver, each) for each in others), reverse=True)
        return followed[needed - 1] < self._driver.services.uptime_ms() - election.timing.trust_ms

    def note_fetch(self, sender: int, directory: UUID | None, offset: int, now_ms: int) -> None:
        seen = self.seen.get(sender)
        if seen is None or seen.directory != directory:
            seen = self.seen[sender] = QuorumFetcher(directory, Progress(now_ms))
        seen.progress.fetched(offset, self._driver.log.end_offset, now_ms)

    def note_alive(self, sender: int, directory: UUID | None, now_ms: int) -> None:
        seen = self.seen.get(sender)
        if seen is not None and seen.directory == directory:
            seen.progress.fetched(seen.progress.end_offset, self._driver.log.end_offset, now_ms)

    def newest_leader(self) -> tuple[int, int]:
        return self.election.epoch, self.election.leader

    # --- the election ---------------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int:
        unused = self.election.retired or self._driver.closed
        return FOREVER_MS if unused else self.election.deadline_ms

    @property
    def may_vote(self) -> bool:
        return not self._driver.closed

    def refresh(self, hearing: Hearing) -> None:
        driver, election = self._driver, self.election
        if election.state is ElectionState.FOLLOWER:
            heard_ms = hearing.leader_heard_ms(driver, election.leader)
            if heard_ms > max(election.leader_heard_ms, election.doubted_ms):
                election.still_heard(heard_ms)
        elif election.state is ElectionState.LEADER:
            hearing.count_voters(driver)
            if self.notes_fetches:
                hearing.note_alive(driver)

    def look(self, now_ms: int, stalled_ms: int, chance: Chance) -> None:
        election = self.election
        if now_ms - stalled_ms < election.timing.stall_grace_ms:
            election.stalled(stalled_ms)
        if election.deadline_ms <= now_ms:
            # A leader only counts the voters that it hears, so the end of its log does not matter here.
            tail = NO_TAIL if election.state is ElectionState.LEADER else self._driver.tail
            effects = election.tick(now_ms, chance(), tail)
            if effects:
                self.elect(effects)

    def leader_heard(self, leader: int, epoch: int, now_ms: int) -> None:
        self.elect(self.election.leader_heard(leader, epoch, now_ms))

    def leader_hinted(self, leader: int, epoch: int, now_ms: int) -> None:
        if epoch >= self.election.epoch:
            self.elect(self.election.leader_hinted(leader, epoch, now_ms))

    def leader_lost(self, leader: int, now_ms: int, chance: Chance) -> int:
        self.election.leader_lost(leader, now_ms, chance())
        return self.election.deadline_ms

    def vote_requested(self, request: VoteRequest, now_ms: int, chance: Chance) -> None:
        self.elect(self.election.vote_requested(request, now_ms, chance(), self._driver.tail))

    def vote_responded(self, response: VoteResponse, now_ms: int, chance: Chance) -> None:
        self.elect(self.election.vote_responded(response, now_ms, chance(), self._driver.tail))

    def stand_now(self, leader: int, epoch: int, now_ms: int, chance: Chance) -> None:
        if self.may_vote:
            self.elect(self.election.stand_now(leader, epoch, now_ms, chance(), self._driver.tail))

    # --- what happens to the replica ------------------------------------------------------------------------

    @property
    def is_forgetful(self) -> bool:
        """Where voters acknowledge before they sync, a majority may lose records: the leader that it elects
        may lack what we know to be committed.
        """
        replica = self._driver.replica
        return not (replica.limits.durable and replica.last_epoch > self.doubtful_epoch)

    def awaits_decision(self, epoch: int) -> bool:
        """The leader announces itself, but the decision before its election arrives with the metadata. Every
        leader reports its epoch to the controllers, so the wait ends.
        """
        return self.metadata_epoch is not None and self.metadata_epoch < epoch

    def follower_restarted(self, broker: int, now_ms: int) -> None:
        """Nothing to do: voters still hold what they acknowledged, because it was synced."""

    def role_ended(self) -> None:
        self.seen.clear()

    def dropping(self) -> None:
        self.election.set_forgot(True)  # The dropped records were acknowledged.

    def dropped(self) -> None:
        self.election.resume()  # It had retired if the damage made the log refuse writes.

    def failed(self) -> None:
        self.retire()

    def retire(self) -> None:
        """Neither lead nor vote until the broker is restarted."""
        self.elect(self.election.retire())

    # --- effects of the election ----------------------------------------------------------------------------

    def elect(self, effects: ElectionEffects) -> None:
        """Carry out an election's effects, each after the ballots that it follows from.

        The exception is to follow no leader, which happens at once: a vote that is being written was decided
        by the log as it is now. A replica that kept acknowledging or leading in the old epoch until then
        would help to commit records that the new leader lacks.
        """
        driver = self._driver
        for effect in effects:
            if isinstance(effect, Follow) and effect.leader == NO_BROKER:
                if effect.epoch >= driver.replica.epoch:
                    driver.follow(effect.epoch, NO_BROKER, driver.replica.replicas, -1)
            else:
                self._outbox.append(effect)
        driver.listener.election_moved(driver)
        self._drain()

    def _drain(self) -> None:
        driver = self._driver
        while self._outbox and not self._saving and not driver.closed and driver.voter is self:
            match self._outbox.popleft():
                case SaveBallot(ballot):
                    self._save(ballot)
                case RequestVote() as effect:
                    driver.listener.request_vote(driver, effect)
                case RespondToVote() as effect:
                    driver.listener.respond_to_vote(driver, effect)
                case TellLeader() as effect:
                    driver.listener.tell_leader(driver, effect)
                case Lead(epoch):
                    self._begin_to_lead(epoch)
                case Follow(epoch, leader):
                    self._begin_to_follow(epoch, leader)

    def _begin_to_follow(self, epoch: int, leader: int) -> None:
        if (self.election.epoch, self.election.leader) == (epoch, leader):
            self._driver.follow(epoch, leader, self._driver.replica.replicas, -1)

    def _begin_to_lead(self, epoch: int) -> None:
        driver, election = self._driver, self.election
        replica = driver.replica
        if election.epoch != epoch or election.leader != replica.me:
            return  # A higher epoch was seen while the ballot was being written.
        self._delete_what_was_deleted()
        driver.lead(epoch, replica.replicas, replica.replicas, -1)
        try:
            driver.seal.found()
            # Write a record of the new epoch at once: records of earlier leaders can be committed only with
            # one.
            driver.write_control(ControlType.LEADER_CHANGE, b"")
        except TidelogError as error:
            logger.error("%s: cannot lead epoch %s: %s", driver.key, epoch, error.message)
            # Without that record nothing would ever be committed, while the others still hear a leader.
            self.elect(election.resign(driver.services.uptime_ms()))
            return
        driver.seal.began()

    def _delete_what_was_deleted(self) -> None:
        """Deletions from before votes began are in no record. If this replica was behind then, one of its
        voters was not: of those, the lowest log start offset counts, because one that only one of them has
        may come from retention by a wrong clock. They hold no later records than this log, and have deleted
        only what was committed.
        """
        log, starts = self._driver.log, self.election.starts
        told = [start for voter, start in starts.items() if voter in self.informed]
        if told:
            self._driver.begin_with_leader_at(min(*told, log.end_offset))

    def _save(self, ballot: Ballot) -> None:
        self._saving = True
        self._ballots.save(ballot, self._saved)

    def _saved(self, result: object) -> None:
        self._saving = False
        if isinstance(result, BaseException):
            # Without its ballot on disk this voter must not send anything: it could vote twice.
            self._driver.close_failed(StorageError(f"cannot write the ballot: {result}"))
            return
        self._drain()
