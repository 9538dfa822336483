"""One replica with its log: carries out the effects of the state machine on the log and tells who listens.

The log is written only here. Whatever promises durability (an acknowledgement, a vote, a fetch that counts as
one) leaves after the sync it needs: ballots have a queue of effects that waits for them.
"""

import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.errors import ErrorCode, InvariantViolation, StorageError, TidelogError
from tidelog.log.index_build import Unindexed
from tidelog.log.log import Log
from tidelog.log.storage import Buffer
from tidelog.log.verification import DamagedSegment
from tidelog.protocol.records import ControlType, Record, control_key, encode_batch
from tidelog.replication.effects import (
    BeginEpoch,
    Commit,
    Degrade,
    Effect,
    Effects,
    ProposeInSync,
    Settle,
    Truncate,
)
from tidelog.replication.election import FOREVER_MS, Election
from tidelog.replication.index_builds import IndexBuilds, Then
from tidelog.replication.listeners import (
    Ballots,
    Listener,
    Nobody,
    Observer,
    Restorer,
    Seen,
    TailListener,
    VoterLog,
)
from tidelog.replication.messages import PartitionKey, Peers, SnapshotAsk
from tidelog.replication.progress import Progress
from tidelog.replication.replica import Limits, Replica, Role
from tidelog.replication.sealing import Sealing
from tidelog.replication.snapshots import PIECE_BYTES, Snapshots
from tidelog.replication.votes import (
    AnswerVote,
    AskVote,
    Ballot,
    ElectionEffect,
    ElectionEffects,
    Follow,
    Lead,
    SaveBallot,
    Tail,
    TellLeader,
)
from tidelog.services import Services
from tidelog.types import NO_BROKER, SnapshotId

if TYPE_CHECKING:
    pass

logger = logging.getLogger(__name__)

LOG_START = Struct(">hq")  # version, the offset before which all is deleted
LOG_START_VERSION = 0
SYNC_AGAIN_MS = 100
HEARD_WITHIN_MS = 1000  # a follower asks several times in this time, however quiet the partitions are


class Hosted:
    def __init__(
        self,
        key: PartitionKey,
        log: Log,
        replica: Replica,
        services: Services,
        listener: Listener,
        election: Election | None = None,
        ballots: Ballots | None = None,
    ) -> None:
        self.key = key
        self.log = log
        self.replica = replica
        self.election = election
        self._ballots = ballots
        self._services = services
        self._listener = listener
        # Who waits for a produce, by the token that the replica settles.
        self._waiters: dict[int, Callable[[ErrorCode], None]] = {}
        self._last_token = 0
        self.observer: Observer = Nobody()
        # Whoever keeps the watermark of this log on disk lowers it first. Raises StorageError.
        self.before_cut: Callable[[int], None] = lambda end_offset: None
        self.tail_listener: TailListener | None = None
        self.voter_log: VoterLog | None = None
        self.snapshots: Snapshots | None = None
        self.sealing: Sealing | None = None  # In modes that do not end without their leaders.
        self.seen: dict[int, Seen] = {}  # While replicas vote and this one leads.
        self.notes_fetches = True  # Whether voters are seen as well: where they may change.
        self._outbox: deque[ElectionEffect] = deque()
        self._saving = False
        self.closed = False
        self._index_builds = IndexBuilds(log, services)
        self.successors: frozenset[int] = frozenset()  # who could be made leader in this replica's place
        # Followers that may be slowed down while they catch up; None: all of them.
        self.throttled: frozenset[int] | None = frozenset()
        self.damaged_from: int | None = None  # offset of the first record that is not what was written
        self.is_cut = False  # Whether the damage was found at the start: it is cut off already.
        self.restoring: Restorer | None = None  # While this replica gathers what it needs to lead.
        self.restless = False  # The clock looks at it; see Replica.settled.
        # Since this epoch leaders may lack records that were committed before: truncating to them is allowed.
        self.unclean_epoch = -1
        # Up to this epoch voters may have acknowledged without a sync, though they sync by now.
        self.doubtful_epoch = -1
        self._deleted_before = 0  # Up to where a record of this leadership says that all is deleted.
        self.degradations = 0  # How often fewer copies became enough.
        self.given_up = 0  # Records that unclean elections have cost, as far as it is seen here.

    # --- from the controller or the election ----------------------------------------------------------------

    def lead(
        self, epoch: int, replicas: tuple[int, ...], in_sync: tuple[int, ...], partition_epoch: int
    ) -> None:
        was_leader = self.replica.role is Role.LEADER and self.replica.epoch == epoch
        now_ms = self._services.uptime_ms()
        self.run(self.replica.lead(epoch, replicas, in_sync, partition_epoch, now_ms))
        if not was_leader:
            if epoch == self.unclean_epoch:
                lost = self.replica.give_up_missing()
                self._give_up(lost, lost)
            self._role_changed()
        self._listener.grown(self)
        self._sync_if_needed()

    def follow(self, epoch: int, leader: int, replicas: tuple[int, ...], partition_epoch: int) -> None:
        if self.snapshots is not None and (epoch, leader) != (self.replica.epoch, self.replica.leader):
            self.snapshots.leader_changed()
        self.run(self.replica.follow(epoch, leader, replicas, partition_epoch))
        self._role_changed()
        # What a restart found in the log may be written and not synced; it counts when it is.
        self._sync_if_needed()

    def _role_changed(self) -> None:
        self.seen.clear()
        self._deleted_before = 0
        self._listener.role_changed(self)
        self.observer.role_changed()

    def set_limits(self, limits: Limits, uncounted: frozenset[int] | None = None) -> None:
        """The topic's settings have changed: what was waited for may be there already, or need a sync now."""
        self.run(self.replica.set_limits(limits, uncounted))
        self._sync_if_needed()

    def delete_before(self, offset: int) -> int:
        """Delete all records before an offset that is committed. The end offset that has to be committed
        before that is sure to stay so, whoever leads next. Raises TidelogError.

        Where a deletion is logged, this replica has raised its start in the same turn, and a follower does so
        with what it fetches: whoever holds the record has no records from before.
        """
        if self.replica.policy.logs_deletions and offset > self._deleted_before:
            refusal = self.replica.before_append(-1)
            if refusal is not ErrorCode.NONE:
                raise TidelogError("nothing can be written now", refusal)
            self._write_control(ControlType.LOG_START, LOG_START.pack(LOG_START_VERSION, offset))
            self._deleted_before = offset
        if offset > self.log.start_offset:
            self.log.advance_start(offset)
            self._listener.grown(self)
        return self.log.end_offset if self.replica.policy.logs_deletions else 0

    def end_restoring(self) -> None:
        """It leads, or somebody else is to."""
        if self.restoring is not None:
            self.restoring.stop()
            self.restoring = None

    def lends_to(self, asker: int) -> bool:
        """Whether the leader itself may have what we hold: it has come back with less."""
        replica = self.replica
        return self.restoring is None and replica.role is Role.FOLLOWER and replica.leader == asker

    def stop(self, error: ErrorCode) -> None:
        self.closed = True
        self.end_restoring()
        self.run(self.replica.stop(error))
        self.observer.role_changed()

    @property
    def tail(self) -> Tail:
        return Tail(self.replica.last_epoch, self.log.end_offset)

    # --- leading --------------------------------------------------------------------------------------------

    def append(self, batch: memoryview, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Append one batch whose base offset is the log's end; raises StorageError, then nothing was
        written.
        """
        log, replica = self.log, self.replica
        try:
            log.append(batch, last_offset, max_timestamp, replica.epoch, now_ms)
        except StorageError as error:
            # A failed log is not synced any more: what waits for that would wait for ever. A passing refusal
            # (too many open files) concerns this batch only.
            if log.failure is not None:
                self._fail(error)
            raise
        if self.tail_listener is not None:
            self.tail_listener.appended(batch)
        if replica.limits.durable:
            self._listener.syncer.want(self)
        else:
            effects = replica.appended()
            if effects:
                self.run(effects)
            if log.sync_due(now_ms):
                self._listener.syncer.want(self)
        self._listener.grown(self)

    def wait(self, end_offset: int, acks: int, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        """Tell ``done`` once the produce that ends at ``end_offset`` is acknowledged or refused."""
        if self.log.failure is not None:
            done(self.log.failure.code)
            return
        deadline_ms = self._services.uptime_ms() + timeout_ms
        token = self._last_token = self._last_token + 1
        settled = self.replica.wait(end_offset, acks, deadline_ms, token)
        if settled is not None:
            done(settled.error)
        else:
            self._waiters[token] = done
            self._listener.wake(self)

    def _write_leader_change(self) -> None:
        """A record of the new epoch at once: only with one can what earlier leaders left be committed."""
        self._write_control(ControlType.LEADER_CHANGE, b"")

    def _write_control(self, kind: ControlType, value: bytes) -> None:
        now_ms = self._services.now_ms()
        record = Record(self.log.end_offset, now_ms, control_key(kind), value, ())
        batch = encode_batch([record], leader_epoch=self.replica.epoch, control=True)
        self.append(memoryview(batch), record.offset, now_ms, now_ms)

    def note_fetch(self, sender: int, directory: UUID | None, offset: int, now_ms: int) -> None:
        """Somebody holds everything before ``offset``, with this disk."""
        seen = self.seen.get(sender)
        if seen is None or seen.directory != directory:
            seen = self.seen[sender] = Seen(directory, Progress(now_ms))
        seen.progress.fetched(offset, self.log.end_offset, now_ms)

    def note_alive(self, sender: int, directory: UUID | None, now_ms: int) -> None:
        """Somebody goes on waiting for what comes behind what it has."""
        seen = self.seen.get(sender)
        if seen is not None and seen.directory == directory:
            seen.progress.fetched(seen.progress.end_offset, self.log.end_offset, now_ms)

    def change_replicas(self, replicas: tuple[int, ...]) -> None:
        """Others vote from now on."""
        replica = self.replica
        if replica.role is Role.LEADER:
            self.lead(replica.epoch, replicas, replicas, replica.partition_epoch)
        else:
            replica.set_replicas(replicas)

    def is_followed_by_all_successors(self, *, by_hand: bool = False) -> bool:
        """Whether everybody who could lead instead is known to have followed this replica in its epoch a
        moment ago. That an ask has just arrived says nothing: it may have waited while this process was
        frozen. ``by_hand``: whether an operator may have named one.
        """
        return self.followed_until_ms(by_hand=by_hand) >= self._services.uptime_ms() - HEARD_WITHIN_MS

    def followed_until_ms(self, *, by_hand: bool = False) -> int:
        """Until when everybody who could lead instead is known to have followed this replica in its epoch."""
        able = self._able(by_hand)
        return min((self._listener.followed_until_ms(self, each) for each in able), default=FOREVER_MS)

    def when_followed(self, then: Callable[[bool], None], *, by_hand: bool = False) -> None:
        """Tell whether everybody who could lead instead follows this replica in its epoch from now on. Until
        it is told, time passes.
        """
        self._listener.when_followed(self, self._able(by_hand), then)

    def _able(self, by_hand: bool) -> frozenset[int]:
        """Who could lead instead. Who is proposed as a member may be one by now, and we have not heard of it.
        ``by_hand``: whether an operator may have named one, and then it can be any replica: that all members
        follow us is no sign, because they may have been given up together with us.
        """
        able = self.successors | self.replica.maximal_in_sync
        if by_hand:
            able |= frozenset(self.replica.replicas)
        return able - {self.replica.me}

    @property
    def low_watermark(self) -> int:
        """Whoever succeeds this replica has nothing from before: the lowest start of a member's log. A member
        that is not heard of may be the next leader for as long as it is one. Where such members stay for
        ever, they are not waited for: they raise theirs when they follow again.
        """
        starts, leave = [self.log.start_offset], self.replica.policy.drops_laggards
        for member, progress in self.replica.progress.items():
            if member not in self.replica.maximal_in_sync:
                continue
            if leave or self._listener.is_followed_by(self, member):
                starts.append(progress.log_start_offset)
        return min(starts)

    # --- following ------------------------------------------------------------------------------------------

    def take(
        self, epoch: int, records: Buffer | None, leader_high_watermark: int, leader_start_offset: int
    ) -> None:
        """What the leader sent from our end on. Raises TidelogError when it cannot be taken now."""
        if self.replica.role is not Role.FOLLOWER or epoch != self.replica.epoch:
            return
        if self._lies_before(leader_start_offset):
            self.restart_at(leader_start_offset)
        try:
            if records:
                if self.voter_log is not None:
                    self.voter_log.arriving(memoryview(records))
                self.log.append_batches(memoryview(records), self._services.now_ms())
                if self.voter_log is not None:
                    self.voter_log.arrived()
                if self.tail_listener is not None:
                    self.tail_listener.appended(memoryview(records))
        except StorageError as error:
            if self.log.failure is None:
                raise  # It passes: too many open files.
            self._fail(error)
            return
        self._advance_start(leader_high_watermark, leader_start_offset)
        self.run(self.replica.received(epoch, leader_high_watermark))
        if self.replica.limits.durable:
            self._sync_if_needed()
        elif self.log.sync_due(self._services.now_ms()):
            self._listener.syncer.want(self)
        if self.restoring is not None:
            self.restoring.taken()

    def accepted(self) -> None:
        """The leader has taken our ask for what comes behind our end."""
        if self.follows_somebody and self.restoring is None:
            self.run(self.replica.accepted())

    def _advance_start(self, leader_high_watermark: int, leader_start_offset: int) -> None:
        """Begin where the leader begins. Before the watermark moves: nobody can compare what lies before with
        the leader's log any more. It may be what an unclean election gave up, and is never committed.
        """
        committed = max(min(leader_high_watermark, self.log.end_offset), self.replica.high_watermark)
        # Where snapshots stand for the log's beginning, ours go with our own.
        if self.log.start_offset < leader_start_offset <= committed and self.snapshots is None:
            self.log.advance_start(leader_start_offset)

    def diverged(self, epoch: int, diverging: tuple[int, int]) -> None:
        """The leader's history is another one from somewhere on."""
        if self.restoring is not None and self.restoring.diverged(diverging):
            return
        # Where voters acknowledge before they sync, a majority may forget: whoever it elects may lack what we
        # know to be committed, and nobody can bring it back.
        synced = self.replica.limits.durable and self.replica.last_epoch > self.doubtful_epoch
        forgetful = self.election is not None and not synced
        unclean = self.replica.last_epoch < self.unclean_epoch
        end, committed = self.log.end_offset, self.replica.high_watermark
        self.run(self.replica.diverged(epoch, diverging, unclean=unclean or forgetful))
        if unclean or self.replica.high_watermark < committed:
            self._give_up(end - self.log.end_offset, committed - self.replica.high_watermark)

    def _give_up(self, records: int, committed: int) -> None:
        """An unclean election has cost records: the leader lacks them, or a replica that held them drops them
        to follow it. More of them may have been acknowledged than we know.
        """
        if records > 0:
            self.given_up += records
            logger.warning(
                "%s: an unclean election gave up %s records, %s of them known to be committed",
                self.key, records, committed,
            )  # fmt: skip

    def _lies_before(self, leader_start_offset: int) -> bool:
        """Whether our whole log lies before the leader's beginning, and has an end that we do not know to be
        committed. The leader's history does not tell any more: a former leader may have a tail that never
        was. What is known to be committed stays, and with it what it tells of idempotent producers.
        """
        log = self.log
        unknown = log.end_offset > self.replica.high_watermark and self.snapshots is None
        return unknown and log.start_offset < leader_start_offset == log.end_offset

    def restart_at(self, offset: int) -> None:
        """Drop everything and go on at the leader's log start."""
        try:
            self.before_cut(min(offset, self.log.start_offset))
            self.log.restart_at(offset)
        except StorageError as error:
            self._fail(error)
            return
        self.replica.log_restarted(offset)
        # The next ask acknowledges everything before: it waits until what was dropped cannot come back.
        self._sync_if_needed()
        if self.voter_log is not None:
            self.voter_log.skipped()
        if self.restoring is not None:
            self.restoring.taken()

    def leader_ends_before(self, leader_start_offset: int) -> None:
        """The leader's log ends before ours does, and ours has no record left by which to find where they
        part. After an unclean election that is so: what it has takes the place of what we had.
        """
        if self.unclean_epoch >= 0 and self.log.start_offset == self.log.end_offset:
            lost = self.replica.give_up_from(leader_start_offset)
            self._give_up(lost, lost)
            self.restart_at(leader_start_offset)

    def fetch_snapshot(self, leader: int, snapshot: SnapshotId, peers: Peers) -> None:
        """What comes next for us is not in the leader's log any more."""
        if self.snapshots is not None and self.election is not None:
            directory, epoch = self.election.directory, self.replica.epoch
            ask = SnapshotAsk(self.replica.me, self.key, epoch, directory, snapshot, 0, PIECE_BYTES)
            self.snapshots.fetch(peers, leader, ask)

    def install(self, snapshot: SnapshotId) -> bool:
        """The log begins behind a snapshot that is on disk; False when it is there already, or fails."""
        if self.replica.role is Role.LEADER or self.closed:
            return False
        self.restart_at(snapshot.end_offset)
        if self.log.failure is not None:
            return False
        self.replica.set_base_epoch(snapshot.epoch)
        return True

    def go_on(self) -> None:
        """Ready to fetch again."""
        self._listener.grown(self)

    @property
    def may_fetch(self) -> bool:
        """A fetch acknowledges everything before its offset, so it waits until that is as durable as
        promised.
        """
        return (
            not self.closed
            and self.log.failure is None
            and (self.snapshots is None or not self.snapshots.fetching)
            and self.replica.durable_end_offset >= self.log.end_offset
        )

    # --- damage ---------------------------------------------------------------------------------------------

    def build_indexes(self, unindexed: Unindexed, then: Then = lambda error: None) -> None:
        """In a thread. Readers and followers that wait are served when it is done; one that failed is tried
        again when somebody asks again."""

        def done(error: BaseException | None) -> None:
            then(error)
            if error is None and not self.closed:
                self.observer.committed()
                self._listener.grown(self)

        self._index_builds.begin(unindexed, done)

    def damaged(self, offset: int, reason: str) -> None:
        """Records from ``offset`` on cannot be relied on. Everything else is still served."""
        if self.closed or (self.damaged_from is not None and self.damaged_from <= offset):
            return
        logger.error("%s: damaged from offset %s on: %s", self.key, offset, reason)
        self.damaged_from = offset
        self._listener.damaged(self)

    def came_back_damaged(self) -> None:
        """The log lost records before it was opened. Until the controllers know, this replica counts for
        nothing: it neither votes, nor is its broker let in.
        """
        self.is_cut = True
        self.damaged(self.log.end_offset, self.log.damage)

    def damage_is_known(self) -> None:
        """The controllers remember that records are missing: what is left may be used."""
        self.is_cut = False
        self.damaged_from = None
        self.log.damage_is_known()

    @property
    def gathers_when_it_leads(self) -> bool:
        """Whether what is dropped while nobody leads comes back from backups before this replica leads."""
        replica = self.replica
        named = self.election is None and replica.policy.backups_serve_readers
        return named and replica.role is Role.FOLLOWER and replica.leader < 0

    def resign_if_copied(self) -> bool:
        """Stop leading in a moment in which a backup holds everything; False when there is none now."""
        replica = self.replica
        if replica.role is Role.LEADER:
            if not replica.is_copied():
                return False
            self.follow(replica.epoch, NO_BROKER, replica.replicas, replica.partition_epoch)
        return True

    def is_behind(self, last_epoch: int, high_watermark: int) -> bool:
        """Whether a backup knows of confirmed records that are missing here: our disk lost some, and nobody
        told the controllers. To answer would be to have the last copy cut off. Not so where replicas vote:
        what an elected leader lacks a majority has forgotten, and stepping back would not bring it back.
        """
        replica = self.replica
        return (
            high_watermark > self.log.end_offset
            and replica.role is Role.LEADER
            and self.election is None
            and replica.policy.backups_serve_readers
            and last_epoch >= self.unclean_epoch
        )

    def step_back(self, high_watermark: int) -> None:
        """Lead no more, and gather what is missing before it does so again."""
        replica = self.replica
        self.follow(replica.epoch, NO_BROKER, replica.replicas, replica.partition_epoch)
        reason = f"a backup has confirmed records up to {high_watermark}"
        self.damaged(self.log.end_offset, reason)

    @property
    def follows_somebody(self) -> bool:
        return self.replica.role is Role.FOLLOWER and self.replica.leader >= 0

    def repair(self) -> None:
        """Drop what is damaged and everything behind it: the leader has it. Only once nobody counts on this
        replica any more, because it holds less than was committed from here on.
        """
        if self.damaged_from is None or self.replica.role is not Role.FOLLOWER:
            return
        if self.election is not None:
            self.election.set_forgot(True)  # What it drops, it had acknowledged.
        try:
            # Of two batches that do not follow each other, both are in doubt.
            damaged_from = self.log.whole_to(self.damaged_from)
        except StorageError as error:
            self._fail(error)
            return
        target = max(damaged_from, self.log.start_offset)
        is_before_start = damaged_from < self.log.start_offset
        self.damaged_from = None
        self.replica.log_damaged_from(target)
        if is_before_start:
            # Cut at the start, the log would end in a batch that cannot be read, and take no more writes.
            self.restart_at(target)
        else:
            self._truncate(target)
        if self.election is not None and self.log.failure is None:
            self.election.resume()  # It had retired where the damage kept the log from being written.
        self._listener.grown(self)

    # --- voting ---------------------------------------------------------------------------------------------

    def begin_election(self, election: Election, ballots: Ballots) -> None:
        """From now on the replicas vote."""
        self.election = election
        self._ballots = ballots

    def end_election(self) -> None:
        """From now on the controllers name the leader."""
        self.election = self._ballots = self.voter_log = None
        self._outbox.clear()

    # --- effects --------------------------------------------------------------------------------------------

    def run(self, effects: Effects) -> None:
        for effect in effects:
            # By type and not by pattern: this is done for every produce.
            if type(effect) is Settle:
                self._waiters.pop(effect.token)(effect.error)
            elif type(effect) is Commit:
                self._listener.committed(self)
                self.observer.committed()
            else:
                self._run_rare(effect)

    def _run_rare(self, effect: Effect) -> None:
        match effect:
            case BeginEpoch(epoch, start_offset):
                self.log.epochs.assign(epoch, start_offset)
            case Truncate(end_offset):
                self._truncate(end_offset)
            case ProposeInSync():
                self._listener.proposed(self, effect)
            case Degrade(copies):
                self._degraded(copies)

    def _degraded(self, copies: int | None) -> None:
        if copies is None:
            logger.warning("%s: enough backups keep up again; an ok means all copies again", self.key)
        else:
            self.degradations += 1
            logger.warning(
                "%s: too few backups keep up; from now on %s of %s copies make an ok, as the topic allows",
                self.key, copies, self.replica.limits.min_in_sync,
            )  # fmt: skip

    def _truncate(self, end_offset: int) -> None:
        logger.info("%s: truncating from %s to %s", self.key, self.log.end_offset, end_offset)
        try:
            self.before_cut(end_offset)
            self.log.truncate_to(end_offset)
        except DamagedSegment as error:
            # What would be left was not read for long, and does not hang together. It may have been
            # acknowledged, so others must know before it goes. Until then the log takes part in nothing.
            self._fail(error)
            self.damaged(error.offset, error.message)
        except StorageError as error:
            self._fail(error)
        self._sync_if_needed()
        if self.tail_listener is not None:
            self.tail_listener.cut(self.log.end_offset)
        if self.voter_log is not None:
            self.voter_log.cut(self.log.end_offset)

    def _fail(self, error: StorageError) -> None:
        logger.error("%s: %s", self.key, error.message)
        self.run(self.replica.cannot_write(error.code))
        if self.election is not None:
            self.elect(self.election.retire())
        self._listener.failed(self, error)

    def contradicted(self, leader: int, error: InvariantViolation) -> None:
        """The leader's log cannot be, by what this replica knows: somebody has lost what was committed. Going
        on would spread the loss, so this replica stops and keeps what it has, for an operator to decide.
        """
        self._fail(
            self.log.refuse_writes(
                f"broker {leader}, which leads, contradicts the log in {self.log.directory}: "
                f"{error.message}. "
                "This replica stops and drops nothing. If the leader is right, stop this broker, remove that "
                "directory and start it again: it then copies everything from the leader. Otherwise the "
                "directory holds records that were committed and the leader lacks: keep a copy of it"
            )
        )

    def elect(self, effects: ElectionEffects) -> None:
        """Carry out an election's effects, each behind the ballots it follows from.

        Only to follow nobody waits for nothing: a vote that is on its way to the disk was decided by the log
        as it is now. Whoever went on acknowledging, or leading, in the old epoch meanwhile would help to
        commit what the new leader lacks.
        """
        for effect in effects:
            if isinstance(effect, Follow) and effect.leader == NO_BROKER:
                if effect.epoch >= self.replica.epoch:
                    self.follow(effect.epoch, NO_BROKER, self.replica.replicas, -1)
            else:
                self._outbox.append(effect)
        self._listener.election_moved(self)
        self._drain()

    def _drain(self) -> None:
        while self._outbox and not self._saving and not self.closed:
            match self._outbox.popleft():
                case SaveBallot(ballot):
                    self._save(ballot)
                case AskVote() as effect:
                    self._listener.ask_vote(self, effect)
                case AnswerVote() as effect:
                    self._listener.answer_vote(self, effect)
                case TellLeader() as effect:
                    self._listener.tell_leader(self, effect)
                case Lead(epoch):
                    self._begin_to_lead(epoch)
                case Follow(epoch, leader):
                    self._begin_to_follow(epoch, leader)

    def _begin_to_follow(self, epoch: int, leader: int) -> None:
        election = self.election
        if election is not None and (election.epoch, election.leader) == (epoch, leader):
            self.follow(epoch, leader, self.replica.replicas, -1)

    def _begin_to_lead(self, epoch: int) -> None:
        election = self.election
        if election is None or election.epoch != epoch or election.leader != self.replica.me:
            return  # A higher epoch came while the ballot was being written.
        self.lead(epoch, self.replica.replicas, self.replica.replicas, -1)
        try:
            if self.sealing is not None:
                self.sealing.found()
            self._write_leader_change()
        except TidelogError as error:
            logger.error("%s: cannot lead epoch %s: %s", self.key, epoch, error.message)
            # Without that record nothing would ever be committed, while everybody hears a leader.
            self.elect(election.resign(self._services.uptime_ms()))
            return
        if self.sealing is not None:
            self.sealing.began()

    def _save(self, ballot: Ballot) -> None:
        if self._ballots is None:
            return
        self._saving = True
        self._ballots.save(ballot, self._saved)

    def _saved(self, result: object) -> None:
        self._saving = False
        if isinstance(result, BaseException):
            # Without its ballot on disk this voter must not say anything more: it could vote twice.
            self.closed = True
            self._fail(StorageError(f"the ballot cannot be written: {result}"))
            return
        self._drain()

    # --- syncing --------------------------------------------------------------------------------------------

    def _sync_if_needed(self) -> None:
        if self.replica.limits.durable and self.log.synced_end_offset < self.log.end_offset:
            self._listener.syncer.want(self)

    def sync_now(self) -> None:
        """What is in the log counts from here on, whatever ``flush.messages`` says: wait for the disk. Raises
        StorageError.
        """
        if self.log.synced_end_offset < self.log.end_offset:
            self.log.sync_now()

    def is_synced_to(self, end_offset: int) -> bool:
        """Whether everything before is on disk, and an acknowledgement means that from now on."""
        whole = self.log.failure is None and self.damaged_from is None and not self.closed
        return whole and self.replica.limits.durable and self.log.synced_end_offset >= end_offset

    def synced(self) -> None:
        """More of the log is durable than before."""
        if self.closed:
            return
        self.run(self.replica.synced())
        self._listener.grown(self)

    def sync_failed(self, error: StorageError) -> None:
        if self.closed:
            return
        if self.log.failure is None:
            # It passes: too many open files. Nothing was promised, and nothing is lost.
            logger.warning("%s: %s", self.key, error.message)
            self._services.later(SYNC_AGAIN_MS, lambda: self._listener.syncer.want(self))
        else:
            self._fail(error)
