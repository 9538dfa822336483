"""Who votes on the metadata log, and how that changes while the cluster runs.

Every node follows the sets of voters in its log from the moment they are written (``appended``). The
leader writes new ones: one voter more or less at a time, the next only when the last is committed, and none
before a record of the leader's own epoch is: until then it may not know of a change that its predecessor
made.

=================== ====================================================================================
change              when
=================== ====================================================================================
a voter is added    on request, once it has everything that is committed: before, it would only be in
                    the way
a voter is removed  on request; a leader that removed itself steps down when that is committed
a disk is learnt    by itself: the settings name voters by number and address only
an address changes  by itself (the leader's own), or on request of the voter
a voter came back   by itself: first it is removed, then, when that is committed and it has caught up,
with another disk   added with its new disk. In one step, the old disk, put back, could make a majority
                    with somebody who has not heard of the new one.
=================== ====================================================================================
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tidelog.errors import ErrorCode, StorageError, TidelogError
from tidelog.invariant import invariant
from tidelog.replication.attachments.voters import NoVoters
from tidelog.replication.election import Election
from tidelog.replication.hosted import Hosted
from tidelog.replication.listeners import Seen
from tidelog.replication.replica import Role
from tidelog.replication.voters import Voter, VoterHistory, VoterSet, encode_batch_of, sets_in
from tidelog.services import Services

logger = logging.getLogger(__name__)

Done = Callable[[TidelogError | None], None]
Change = Callable[[VoterSet], VoterSet | None]
"""The set after a change; None: not yet. Refuses by raising a TidelogError."""


class Wish(NamedTuple):
    """A change that somebody asked for and that waits for its turn."""

    change: Change
    deadline_ms: int
    waiting_for: str  # what is told when time is up
    done: Done


class MetadataVoters(NoVoters):
    def __init__(
        self, hosted: Hosted, election: Election, history: VoterHistory, me: Voter, services: Services
    ) -> None:
        self._hosted = hosted
        self._election = election
        self.history = history
        self._me = me
        self._services = services
        self._wishes: deque[Wish] = deque()
        self.on_change: Callable[[VoterSet], None] = lambda voters: None
        election.set_needed(self._is_needed())

    @property
    def latest(self) -> VoterSet:
        return self.history.latest

    @property
    def waiting(self) -> int:
        """How many changes were asked for and are not written yet."""
        return len(self._wishes)

    # --- following the log ----------------------------------------------------------------------------------

    def appended(self, batches: memoryview) -> None:
        for offset, voters in sets_in(batches):
            self.history.appended(offset, voters)
            self._take_force()

    def cut(self, end_offset: int) -> None:
        if self.history.cut(end_offset):
            self._take_force()

    def restarted(self, voters: VoterSet) -> None:
        """A snapshot has taken the place of the log."""
        self.history.restart(voters)
        self._take_force()

    def _take_force(self) -> None:
        voters = self.history.latest
        logger.info("the controllers are %s now", ", ".join(map(str, sorted(voters.ids))))
        self._election.change_voters(voters, self._services.uptime_ms(), needed=self._is_needed())
        self._hosted.change_replicas(tuple(sorted(voters.ids)))
        self.on_change(voters)

    # --- leading --------------------------------------------------------------------------------------------

    @property
    def _may_change(self) -> bool:
        replica = self._hosted.replica
        return (
            replica.role is Role.LEADER
            and replica.high_watermark > replica.epoch_start_offset
            and self.history.latest_offset < replica.high_watermark
        )

    def _is_needed(self) -> bool:
        """Whether only the latest set, which is not committed, says that this node votes no more."""
        latest_offset, me = self.history.latest_offset, self._me
        if latest_offset < self._hosted.replica.high_watermark:
            return False
        if me.voter_id in self.latest:
            return False  # It votes, or another disk of this node did: an earlier set may not know disks yet.
        return self.history.before(latest_offset).counts(me.voter_id, me.directory)

    def committed(self) -> None:
        """The high watermark has moved."""
        self._election.set_needed(self._is_needed())
        if not self._may_change:
            return
        if self._me.voter_id not in self.latest:
            logger.info("this node is no controller any more: it steps down")
            self._hosted.voter.elect(self._election.resign(self._services.uptime_ms()))
            return
        self.tick()

    def role_changed(self) -> None:
        if self._hosted.replica.role is not Role.LEADER:
            wishes, self._wishes = self._wishes, deque()
            for wish in wishes:
                wish.done(_not_leading())

    def tick(self) -> None:
        """Go on with what was waited for."""
        if self._hosted.replica.role is not Role.LEADER:
            return
        now_ms = self._services.uptime_ms()
        self._expire(now_ms)
        if not self._may_change:
            return
        try:
            wanted = self._learnt() or self._returned() or self._forgotten(now_ms)
            if wanted is not None:
                self._write(wanted)
            else:
                self._grant()
        except StorageError as error:
            logger.error("the set of controllers cannot be changed: %s", error.message)

    def _expire(self, now_ms: int) -> None:
        for wish in [wish for wish in self._wishes if wish.deadline_ms <= now_ms]:
            self._wishes.remove(wish)
            wish.done(TidelogError(wish.waiting_for, ErrorCode.REQUEST_TIMED_OUT))

    def _grant(self) -> None:
        """The first wish whose time has come."""
        for wish in list(self._wishes):
            try:
                wanted = wish.change(self.latest)
            except TidelogError as refusal:
                self._wishes.remove(wish)
                wish.done(refusal)
                continue
            if wanted is not None and self._could_decide(wanted):
                self._wishes.remove(wish)
                self._write(wanted, wish.done)
                return

    def _could_decide(self, voters: VoterSet) -> bool:
        """Whether a majority of this set is heard of: otherwise it would be the last thing ever decided."""
        now_ms, me = self._services.uptime_ms(), self._me.voter_id
        alive = [each for each in voters.ids if each == me or not self._election.is_silent(each, now_ms)]
        return len(alive) >= voters.majority

    def _write(self, voters: VoterSet, done: Done = lambda error: None) -> None:
        """Raises StorageError."""
        invariant(voters.is_safe_after(self.latest), "one voter at a time", voters, self.latest)
        hosted, now_ms = self._hosted, self._services.now_ms()
        offset = hosted.log.end_offset
        batch = encode_batch_of(voters, offset, hosted.replica.epoch, now_ms)
        try:
            hosted.append(memoryview(batch), offset, now_ms, now_ms)
        except StorageError as error:
            done(error)
            raise
        hosted.wait(hosted.log.end_offset, -1, COMMIT_TIMEOUT_MS, lambda code: done(_outcome(code)))

    # --- changes by themselves ------------------------------------------------------------------------------

    def _learnt(self) -> VoterSet | None:
        """Disks of voters that we know by now, and our own address."""
        return _if_other(VoterSet(map(self._as_known, self.latest), self.latest.returning), self.latest)

    def _as_known(self, voter: Voter) -> Voter:
        if voter.voter_id == self._me.voter_id:
            return self._me if self._me.host else msgspec.structs.replace(voter, directory=self._me.directory)
        seen = self._hosted.voter.seen.get(voter.voter_id)
        if voter.directory is None and seen is not None and seen.directory is not None:
            return msgspec.structs.replace(voter, directory=seen.directory)
        return voter

    def _returned(self) -> VoterSet | None:
        """A voter with a new disk has everything again."""
        for voter in self.latest.returning:
            if self._has_caught_up(voter):
                logger.info("controller %s is back, with another disk", voter.voter_id)
                return self.latest.including(voter)
        return None

    def _forgotten(self, now_ms: int) -> VoterSet | None:
        """A voter's number is used with another disk, and the old one is silent."""
        for voter in self.latest:
            seen = self._hosted.voter.seen.get(voter.voter_id)
            if seen is None or seen.directory in (None, voter.directory):
                continue
            anew = msgspec.structs.replace(voter, directory=seen.directory)
            if self._election.is_silent(voter.voter_id, now_ms) and self._has_caught_up(anew):
                logger.warning("controller %s came back with another disk: taken in anew", voter.voter_id)
                return self.latest.without(voter.voter_id, anew)
        return None

    def _has_caught_up(self, voter: Voter) -> bool:
        seen = self._hosted.voter.seen.get(voter.voter_id)
        if seen is None or not _is_disk(seen, voter):
            return False
        age_ms = self._services.uptime_ms() - seen.progress.fetched_ms
        behind = seen.progress.end_offset < self._hosted.replica.high_watermark
        return not behind and age_ms <= self._election.timing.silence_ms

    # --- changes on request ---------------------------------------------------------------------------------

    def add(self, voter: Voter, timeout_ms: int, done: Done) -> None:
        def change(latest: VoterSet) -> VoterSet | None:
            if voter.voter_id in latest:
                raise TidelogError(
                    f"node {voter.voter_id} is a controller already", ErrorCode.DUPLICATE_VOTER
                )
            return latest.including(voter) if self._has_caught_up(voter) else None

        waiting_for = (
            f"node {voter.voter_id} has not caught up with the metadata in time; is it running, with "
            "controller.quorum.voters naming this cluster's controllers?"
        )
        self._wish(change, timeout_ms, waiting_for, done)

    def remove(self, voter: Voter, timeout_ms: int, done: Done) -> None:
        def change(latest: VoterSet) -> VoterSet | None:
            known = latest.get(voter.voter_id)
            if known is None or voter.directory not in (None, known.directory):
                raise TidelogError(f"node {voter.voter_id} is no controller", ErrorCode.VOTER_NOT_FOUND)
            if len(latest) == 1:
                raise TidelogError("the last controller cannot be removed", ErrorCode.INVALID_REQUEST)
            return latest.without(voter.voter_id)

        self._wish(change, timeout_ms, NOT_ENOUGH, done)

    def update(self, voter: Voter, timeout_ms: int, done: Done) -> None:
        """A voter has another address."""

        def change(latest: VoterSet) -> VoterSet | None:
            if not latest.counts(voter.voter_id, voter.directory):
                raise TidelogError(f"node {voter.voter_id} is no controller", ErrorCode.VOTER_NOT_FOUND)
            return latest.including(voter)

        self._wish(change, timeout_ms, NOT_ENOUGH, done)

    def _wish(self, change: Change, timeout_ms: int, waiting_for: str, done: Done) -> None:
        if self._hosted.replica.role is not Role.LEADER:
            done(_not_leading())
            return
        deadline_ms = self._services.uptime_ms() + timeout_ms
        self._wishes.append(Wish(change, deadline_ms, waiting_for, done))
        self.tick()


COMMIT_TIMEOUT_MS = 10_000
NOT_ENOUGH = (
    "an earlier change of the controllers is not committed, or too few of those that would be left are alive"
)


def _is_disk(seen: Seen, voter: Voter) -> bool:
    return voter.directory is None or seen.directory == voter.directory


def _if_other(voters: VoterSet, than: VoterSet) -> VoterSet | None:
    return None if voters == than else voters


def _not_leading() -> TidelogError:
    return TidelogError("this node is not the active controller", ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _outcome(code: ErrorCode) -> TidelogError | None:
    if code is ErrorCode.NONE:
        return None
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return TidelogError("the active controller has changed; whether it was decided is unknown", code)
    return TidelogError("the controllers did not decide in time", code)
