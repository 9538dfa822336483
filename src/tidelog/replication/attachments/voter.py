"""How a replica comes to its leader: by the controllers' word, or by a vote.

Whatever promises durability (a vote, a leadership) leaves after the sync it needs: an election's effects wait
in a queue behind the ballots they follow from.
"""

import logging
from collections import deque
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from tidelog.errors import StorageError, TidelogError
from tidelog.invariant import invariant
from tidelog.protocol.records import ControlType
from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.election import NEVER_MS, Election
from tidelog.replication.listeners import Ballots, QuorumFetcher
from tidelog.replication.progress import Progress
from tidelog.replication.votes import (
    AskVote,
    Ballot,
    ElectionEffect,
    ElectionEffects,
    Follow,
    Lead,
    RespondToVote,
    SaveBallot,
    TellLeader,
)
from tidelog.types import NO_BROKER

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)


class Appointed(Attachment):
    """The controllers name the leader; nobody votes."""

    slot: ClassVar[str] = "voter"
    # Whether a follower is known by its registration: what an earlier process of it asked for does not count.
    counts_registered_only: ClassVar[bool] = True
    # Whether it must know when its leader was last heard of.
    watches_leader: ClassVar[bool] = False

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver
        self.directory: UUID | None = None  # our disk, where that matters
        self.seen: dict[int, QuorumFetcher] = {}  # While replicas vote and this one leads.
        self.notes_fetches = False  # Whether voters are seen as well: where they may change.

    def counted(self, follower: int, directory: UUID | None, now_ms: int) -> int:
        """As whom a follower's fetch counts; -1: it may read, but acknowledges nothing."""
        return follower

    def counts(self, follower: int, directory: UUID | None) -> bool:
        """Whether this is a voter."""
        return False

    def confirmed(self, voter: int, confirmed_ms: int) -> None:
        """A voter is known to have followed until then."""

    def confirmed_ms(self) -> int:
        """Until when nobody else can have been elected."""
        return NEVER_MS

    def note_fetch(self, sender: int, directory: UUID | None, offset: int, now_ms: int) -> None:
        """Somebody holds everything before ``offset``, with this disk."""

    def note_alive(self, sender: int, directory: UUID | None, now_ms: int) -> None:
        """Somebody goes on waiting for what comes behind what it has."""

    def newest_leader(self) -> tuple[int, int]:
        """(epoch, leader), as far as we know."""
        return self._driver.replica.epoch, self._driver.replica.leader

    def elect(self, effects: ElectionEffects) -> None:
        """Carry out an election's effects."""
        invariant(not effects, "there are elections only where replicas vote", self._driver.key)

    @property
    def is_forgetful(self) -> bool:
        """Whether the leader may lack what we know to be committed, and nobody can bring it back."""
        return False

    def awaits_decision(self, epoch: int) -> bool:
        """Whether an operator may have decided on this epoch's leader, and the metadata here does not show it
        yet.
        """
        return False

    def follower_restarted(self, broker: int, now_ms: int) -> None:
        self._driver.replica.restarted(broker, now_ms)


class Elected(Appointed):
    """The replicas vote."""

    counts_registered_only = False  # Voters need nobody's registration, or no controller could be elected.
    watches_leader = True

    def __init__(
        self, driver: "ReplicaDriver", election: Election, ballots: Ballots, *, doubtful_epoch: int = -1
    ) -> None:
        super().__init__(driver)
        self.election = election
        self.directory = election.directory
        self.notes_fetches = True
        self._ballots = ballots
        self._outbox: deque[ElectionEffect] = deque()
        self._saving = False
        # Up to this epoch voters may have acknowledged without a sync, though they sync by now.
        self.doubtful_epoch = doubtful_epoch
        # The newest leader epoch in this broker's metadata; None: the metadata does not name them.
        self.named_epoch: int | None = None

    @property
    def closed(self) -> bool:
        return self._driver.closed

    # --- who fetches ----------------------------------------------------------------------------------------

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

    # --- what happens to the replica ------------------------------------------------------------------------

    @property
    def is_forgetful(self) -> bool:
        """Where voters acknowledge before they sync, a majority may forget: whoever it elects may lack what
        we know to be committed.
        """
        replica = self._driver.replica
        return not (replica.limits.durable and replica.last_epoch > self.doubtful_epoch)

    def awaits_decision(self, epoch: int) -> bool:
        """The leader announces itself, but the decision before its election arrives with the metadata. Every
        leader reports its epoch to the controllers, so the wait ends.
        """
        return self.named_epoch is not None and self.named_epoch < epoch

    def follower_restarted(self, broker: int, now_ms: int) -> None:
        """Voters hold what they said: it was synced."""

    def role_ended(self) -> None:
        self.seen.clear()

    def dropping(self) -> None:
        self.election.set_forgot(True)  # What it drops, it had acknowledged.

    def dropped(self) -> None:
        self.election.resume()  # It had retired where the damage kept the log from being written.

    def failed(self) -> None:
        self.elect(self.election.retire())

    # --- effects of the election ----------------------------------------------------------------------------

    def elect(self, effects: ElectionEffects) -> None:
        """Carry out an election's effects, each behind the ballots it follows from.

        Only to follow nobody waits for nothing: a vote that is on its way to the disk was decided by the log
        as it is now. Whoever went on acknowledging, or leading, in the old epoch meanwhile would help to
        commit what the new leader lacks.
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
                case AskVote() as effect:
                    driver.listener.ask_vote(driver, effect)
                case RespondToVote() as effect:
                    driver.listener.answer_vote(driver, effect)
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
            return  # A higher epoch came while the ballot was being written.
        driver.lead(epoch, replica.replicas, replica.replicas, -1)
        try:
            driver.seal.found()
            # A record of the new epoch at once: only with one can what earlier leaders left be committed.
            driver.write_control(ControlType.LEADER_CHANGE, b"")
        except TidelogError as error:
            logger.error("%s: cannot lead epoch %s: %s", driver.key, epoch, error.message)
            # Without that record nothing would ever be committed, while everybody hears a leader.
            self.elect(election.resign(driver.services.uptime_ms()))
            return
        driver.seal.began()

    def _save(self, ballot: Ballot) -> None:
        self._saving = True
        self._ballots.save(ballot, self._saved)

    def _saved(self, result: object) -> None:
        self._saving = False
        if isinstance(result, BaseException):
            # Without its ballot on disk this voter must not say anything more: it could vote twice.
            self._driver.closed = True
            self._driver.fail(StorageError(f"the ballot cannot be written: {result}"))
            return
        self._drain()
