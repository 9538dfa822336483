"""One replica with its log: carries out the effects of the state machine on the log and informs the
listeners.

Only this class writes the log. Everything that depends on the mode, or is needed only for a while, is done by
attachments (:mod:`tidelog.replication.attachments`): the driver tells them what happens and queries them for
what only they know.
"""

import logging
from collections.abc import Callable

from tidelog.errors import ErrorCode, InvariantViolation, StorageError
from tidelog.log.index_build import Unindexed
from tidelog.log.log import Log
from tidelog.log.storage import Buffer
from tidelog.log.verification import DamagedSegment
from tidelog.protocol.records import ControlType, Record, control_key, encode_batch
from tidelog.replication.attachments.slots import Slots
from tidelog.replication.damage import Damage
from tidelog.replication.divergence import common_end_offset
from tidelog.replication.effects import (
    BeginEpoch,
    Commit,
    CompleteProduce,
    Degrade,
    Effect,
    Effects,
    ProposeInSync,
    Truncate,
)
from tidelog.replication.index_builds import IndexBuilds, Then
from tidelog.replication.limits import Limits
from tidelog.replication.listeners import NullListener, Observer, ReplicaListener
from tidelog.replication.messages import PartitionKey
from tidelog.replication.replica import Replica, Role
from tidelog.replication.votes import Tail
from tidelog.services import Services, ignore
from tidelog.types import NO_EPOCH, SnapshotId

logger = logging.getLogger(__name__)

SYNC_AGAIN_MS = 100


class ReplicaDriver(Slots):
    def __init__(
        self,
        key: PartitionKey,
        log: Log,
        replica: Replica,
        services: Services,
        listener: ReplicaListener,
        before_cut: Callable[[int], None] = ignore,
    ) -> None:
        """``before_cut``: called before the log is truncated, so that a high watermark stored on disk is
        lowered first. Raises StorageError.
        """
        self.key = key
        self.log = log
        self.services = services
        self.listener = listener
        # Callbacks of pending produces, by the token that the replica completes.
        self._waiters: dict[int, Callable[[ErrorCode], None]] = {}
        self._last_token = 0
        self._failure_told = ""  # in the broker's log
        self.observer: Observer = NullListener()
        self._before_cut = before_cut
        self.closed = False
        self._index_builds = IndexBuilds(log, services)
        # Followers that may be throttled while they catch up; None: all of them.
        self.throttled: frozenset[int] | None = frozenset()
        self.damage = Damage(self)
        self.restless = False  # The host ticks this replica; see Replica.is_quiescent.
        # Since this epoch a leader may lack records that were committed before, so truncating below the high
        # watermark to match it is allowed.
        self.unclean_epoch = -1
        self.degradations = 0  # how often fewer copies became enough
        self.given_up = 0  # records lost by unclean elections, as far as this replica has seen
        super().__init__(replica)

    # --- from the controller or the election ----------------------------------------------------------------

    def lead(
        self, epoch: int, replicas: tuple[int, ...], in_sync: tuple[int, ...], partition_epoch: int
    ) -> None:
        was_leader = self.replica.role is Role.LEADER and self.replica.epoch == epoch
        now_ms = self.services.uptime_ms()
        self.run(self.replica.lead(epoch, replicas, in_sync, partition_epoch, now_ms))
        if not was_leader:
            if epoch == self.unclean_epoch:
                lost = self.replica.watermark.give_up_missing(self.log.end_offset)
                self._give_up(lost, lost)
            self._role_changed()
        self.listener.grown(self)
        self._sync_if_needed()

    def follow(self, epoch: int, leader: int, replicas: tuple[int, ...], partition_epoch: int) -> None:
        if (epoch, leader) != (self.replica.epoch, self.replica.leader):
            for each in self.attached:
                each.leader_changes()
        self.run(self.replica.follow(epoch, leader, replicas, partition_epoch))
        self._role_changed()
        # Records found at a restart may be written but not synced. They count once they are synced.
        self._sync_if_needed()

    def _role_changed(self) -> None:
        for each in self.attached:
            each.role_ended()
        self.listener.role_changed(self)
        self.observer.role_changed()

    def set_limits(self, limits: Limits, uncounted: frozenset[int] | None = None) -> None:
        """The topic's settings have changed. Pending produces may be complete now, or may need a sync
        first.
        """
        self.run(self.replica.set_limits(limits, uncounted))
        self._sync_if_needed()

    def set_unclean_epoch(self, epoch: int) -> None:
        """Since this epoch a leader may lack records that were committed before; -1: none does."""
        self.unclean_epoch = epoch

    def throttle(self, followers: frozenset[int] | None) -> None:
        """These followers may be throttled while they catch up; None: all of them."""
        self.throttled = followers

    def begin_at(self, offset: int) -> None:
        """Drop all records before ``offset``, which must be committed."""
        if offset > self.log.start_offset:
            self.log.advance_start(offset)
            self.begins_later()

    def begin_with_leader_at(self, offset: int) -> None:
        """The same after a leader has done so: it was committed there, even if we have not heard of that."""
        self.begin_at(offset)
        self.replica.watermark.log_begins(offset)

    def begins_later(self) -> None:
        """The log start offset has risen. The followers of a leader are told at once, even if nothing is
        written: until theirs has risen, none of them joins the in-sync set and no deletion is acknowledged.
        """
        if self.replica.role is Role.LEADER:
            self.listener.grown(self)

    def lends_to(self, asker: int) -> bool:
        """Whether the leader itself may copy from this replica: it restarted with fewer records."""
        replica = self.replica
        return replica.role is Role.FOLLOWER and replica.leader == asker and not self.restorer.gathers

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
        """Append one batch whose base offset is the log end offset. If it raises StorageError, nothing was
        written.
        """
        log, replica = self.log, self.replica
        try:
            log.append(batch, last_offset, max_timestamp, replica.epoch, now_ms)
        except StorageError as error:
            # A failed log is not synced any more, so produces that wait for a sync would wait forever. A
            # temporary failure (too many open files) affects only this batch.
            if log.failure is not None:
                self.fail(error)
            raise
        for each in self._on_appended:
            each.appended(batch)
        if replica.limits.durable:
            self.listener.syncer.want(self)
        else:
            effects = replica.appended()
            if effects:
                self.run(effects)
            if log.sync_due(now_ms):
                self.listener.syncer.want(self)
        self.listener.grown(self)

    def wait(self, end_offset: int, acks: int, timeout_ms: int, done: Callable[[ErrorCode], None]) -> None:
        """Call ``done`` once the produce that ends at ``end_offset`` is acknowledged or refused."""
        if self.log.failure is not None:
            done(self.log.failure.code)
            return
        replica = self.replica
        error = replica.verdict(end_offset, acks)
        if error is not None:
            done(error)
            return
        token = self._last_token = self._last_token + 1
        replica.wait(end_offset, acks, self.services.uptime_ms() + timeout_ms, token)
        self._waiters[token] = done
        self.listener.wake(self)

    def write_control(self, kind: ControlType, value: bytes) -> None:
        """Append a record that consumers skip. Raises StorageError."""
        now_ms = self.services.now_ms()
        record = Record(self.log.end_offset, now_ms, control_key(kind), value, ())
        batch = encode_batch([record], leader_epoch=self.replica.epoch, control=True)
        self.append(memoryview(batch), record.offset, now_ms, now_ms)

    def change_replicas(self, replicas: tuple[int, ...]) -> None:
        """The set of voters has changed."""
        replica = self.replica
        if replica.role is Role.LEADER:
            self.lead(replica.epoch, replicas, replicas, replica.partition_epoch)
        else:
            replica.set_replicas(replicas)

    def follower_restarted(self, broker: int, now_ms: int) -> None:
        """The broker has registered again."""
        for each in self.attached:
            each.follower_restarted(broker, now_ms)

    # --- following ------------------------------------------------------------------------------------------

    def take(
        self, epoch: int, records: Buffer | None, leader_high_watermark: int, leader_start_offset: int
    ) -> None:
        """Append what the leader sent from our log end offset on. Raises TidelogError if it cannot be
        appended now.
        """
        if self.replica.role is not Role.FOLLOWER or epoch != self.replica.epoch:
            return
        if self._lies_before(leader_start_offset):
            self.restart_at_leader_start(leader_start_offset)
        try:
            if records:
                batches = memoryview(records)
                for each in self._on_arriving:
                    each.arriving(batches)
                self.log.append_batches(batches, self.services.now_ms())
                for each in self._on_arrived:
                    each.arrived()
                for each in self._on_appended:
                    each.appended(batches)
        except StorageError as error:
            if self.log.failure is None:
                raise  # A temporary failure: too many open files.
            self.fail(error)
            return
        self._advance_start(leader_high_watermark, leader_start_offset)
        self.run(self.replica.received(epoch, leader_high_watermark))
        if self.replica.limits.durable:
            self._sync_if_needed()
        elif self.log.sync_due(self.services.now_ms()):
            self.listener.syncer.want(self)
        for each in self._on_taken:
            each.taken()

    def accepted(self) -> None:
        """The leader has accepted a fetch from our log end offset."""
        if self.has_leader and not self.restorer.gathers:
            self.run(self.replica.watermark.accepted(self.log.start_offset))

    def _advance_start(self, leader_high_watermark: int, leader_start_offset: int) -> None:
        """Move the log start offset to the leader's. This must happen before the high watermark moves:
        records before the leader's log start can no longer be compared with its log. They may have been lost
        in an unclean election, and then they must never count as committed.
        """
        committed = max(min(leader_high_watermark, self.log.end_offset), self.replica.high_watermark)
        # Where a snapshot replaces the beginning of the log, the log start follows our own snapshots.
        if self.log.start_offset < leader_start_offset <= committed and not self.snapshots.stand_for_start:
            self.log.advance_start(leader_start_offset)
        self.log.keep_start()

    def diverged(self, epoch: int, diverging: tuple[int, int]) -> bool:
        """The leader's log differs from ours from some offset on. Returns False if the leader lacks committed
        records and it is not known yet whether an operator has given them up: nothing was done then.
        """
        if self.restorer.diverged(diverging):
            return True
        forgetful = self.voter.is_forgetful
        unclean = self.replica.last_epoch < self.unclean_epoch
        allowed = unclean or forgetful
        if not allowed and self.voter.awaits_decision(epoch) and self.replica.cuts_committed(diverging):
            return False
        end, committed = self.log.end_offset, self.replica.high_watermark
        common_end = common_end_offset(self.log, diverging)
        # Compaction removes a record because of a newer one. That may be among those that are dropped here or
        # that the leader lacks: even before the divergence, the logs may have different keys. A replica that
        # is to lead keeps what it can: it may be the last one that has it.
        from_start = unclean and self.log.is_compacted and not self.restorer.gathers
        effects = self.replica.diverged(epoch, diverging, unclean=allowed, from_start=from_start)
        if not effects:
            return True
        self.run(effects)
        self._take_last_epoch(diverging[0])
        if unclean or self.replica.high_watermark < committed:
            kept = common_end if from_start else self.log.end_offset
            self._give_up(end - kept, max(committed - common_end, 0))
        return True

    def _take_last_epoch(self, epoch: int) -> None:
        """The truncation has left no record. What came before our log is in the leader's history, and is not
        newer than the epoch that the leader named. Without any epoch this replica would vote for a shorter
        log. With its previous epoch the leader would report the same divergence forever.
        """
        log = self.log
        if log.failure is None and 0 < log.start_offset == log.end_offset:
            log.epochs.assign(epoch, log.end_offset)

    def _give_up(self, records: int, committed: int) -> None:
        """An unclean election lost records: the leader lacks them, or a replica that held them drops them to
        follow it. More of them may have been acknowledged than this replica knows.
        """
        if records > 0:
            self.given_up += records
            logger.warning(
                "%s: an unclean election lost %s records, %s of them known to be committed",
                self.key, records, committed,
            )  # fmt: skip

    def _lies_before(self, leader_start_offset: int) -> bool:
        """Whether our whole log lies before the leader's log start, and its end is not known to be committed.
        The leader's history does not reach back that far, and a former leader may have an end that was never
        committed. Records that are known to be committed are kept, and with them the state of idempotent
        producers.
        """
        log = self.log
        if not log.start_offset < leader_start_offset == log.end_offset:
            return False
        return log.end_offset > self.replica.high_watermark and not self.snapshots.stand_for_start

    def restart_at_leader_start(self, leader_start_offset: int) -> None:
        """Drop everything and continue at the leader's log start. We may have acknowledged the dropped
        records, so our vote must not become easier to get: the epoch of our last record is kept.
        """
        self.restart_at(leader_start_offset, last_epoch=self.replica.last_epoch)

    def restart_at(self, offset: int, last_epoch: int = NO_EPOCH) -> None:
        """Drop everything and continue at ``offset``."""
        try:
            self._before_cut(min(offset, self.log.start_offset))
            self.log.restart_at(offset)
            self.log.epochs.assign(last_epoch, offset)
        except StorageError as error:
            self.fail(error)
            return
        self.replica.watermark.log_restarted(offset)
        # The next fetch acknowledges everything before its offset. It waits for the sync, so that the dropped
        # records cannot reappear after a power failure.
        self._sync_if_needed()
        for each in self.attached:
            each.skipped()

    def leader_ends_before(self, leader_start_offset: int) -> None:
        """The leader's log ends before ours, and ours has no record left from which the divergence could be
        found. That happens after an unclean election: the leader's log replaces ours.
        """
        if self.unclean_epoch >= 0 and self.log.start_offset == self.log.end_offset:
            lost = self.replica.watermark.give_up_from(leader_start_offset)
            self._give_up(lost, lost)
            self.restart_at(leader_start_offset)

    def install(self, snapshot: SnapshotId) -> bool:
        """Restart the log at the end of a snapshot that is on disk. Returns False if this replica leads or is
        closed, or if the log fails.
        """
        if self.replica.role is Role.LEADER or self.closed:
            return False
        self.restart_at(snapshot.end_offset)
        if self.log.failure is not None:
            return False
        self.replica.set_base_epoch(snapshot.epoch)
        return True

    def resume_fetching(self) -> None:
        """Resume fetching."""
        self.listener.grown(self)

    @property
    def may_fetch(self) -> bool:
        """A fetch acknowledges everything before its offset, so it waits until those records are as durable
        as the topic promises.
        """
        return (
            not self.closed
            and self.log.failure is None
            and not self.snapshots.fetching
            and self.replica.durable_end_offset >= self.log.end_offset
        )

    def build_indexes(self, unindexed: Unindexed, then: Then = lambda error: None) -> None:
        """Build them in a thread. Waiting readers and followers are served afterwards. A failed build is
        retried with the next request.
        """

        def done(error: BaseException | None) -> None:
            then(error)
            if error is None and not self.closed:
                self.observer.committed()
                self.listener.grown(self)

        self._index_builds.begin(unindexed, done)

    # --- damage ---------------------------------------------------------------------------------------------

    @property
    def has_leader(self) -> bool:
        return self.replica.role is Role.FOLLOWER and self.replica.leader >= 0

    def drop_from(self, offset: int) -> None:
        """Drop damaged records and everything after them."""
        target = max(offset, self.log.start_offset)
        self.replica.watermark.log_damaged_from(target)
        if offset < target:
            # Truncated at its start, the log would end in an unreadable batch and accept no writes.
            self.restart_at(target)
        else:
            self._truncate(target)
        if self.log.failure is None:
            for each in self.attached:
                each.dropped()
        self.listener.grown(self)

    # --- effects --------------------------------------------------------------------------------------------

    def run(self, effects: Effects) -> None:
        for effect in effects:
            # Tested by type, not with a match statement: this runs for every produce.
            if type(effect) is CompleteProduce:
                self._waiters.pop(effect.token)(effect.error)
            elif type(effect) is Commit:
                self.listener.committed(self)
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
                self.listener.proposed(self, effect)
            case Degrade(copies):
                self._degraded(copies)

    def _degraded(self, copies: int | None) -> None:
        if copies is None:
            logger.warning("%s: enough backups keep up again; all copies are required again", self.key)
        else:
            self.degradations += 1
            logger.warning(
                "%s: too few backups keep up; %s of %s copies are enough for an acknowledgement now",
                self.key, copies, self.replica.limits.min_in_sync,
            )  # fmt: skip

    def _truncate(self, end_offset: int) -> None:
        logger.info("%s: truncating from %s to %s", self.key, self.log.end_offset, end_offset)
        try:
            self._before_cut(end_offset)
            self.log.truncate_to(end_offset)
        except DamagedSegment as error:
            # What would remain had not been read for a long time, and is inconsistent. It may have been
            # acknowledged, so the controllers must know before it is dropped. Until then this log is not
            # used.
            self.fail(error)
            self.damage.found(error.offset, error.message)
        except StorageError as error:
            self.fail(error)
        else:
            # Also where acknowledgements require no sync: if the truncated records returned after a power
            # failure, a last member that collects what others hold would prefer them to committed ones.
            self.listener.syncer.want(self)
        for each in self.attached:
            each.cut(self.log.end_offset)

    def fail(self, error: StorageError) -> None:
        # Later syncs find the same failure again. On a full disk, repeated lines cost space.
        if error.message != self._failure_told:
            self._failure_told = error.message
            logger.error("%s: %s", self.key, error.message)
        self.run(self.replica.cannot_write(error.code))
        for each in self.attached:
            each.failed()
        self.listener.failed(self, error)

    def close_failed(self, error: StorageError) -> None:
        """What this replica promised may not be on disk, so it must not send anything any more."""
        self.closed = True
        self.fail(error)

    def contradicted(self, leader: int, error: InvariantViolation) -> None:
        """The leader's log contradicts what this replica knows: committed records were lost somewhere. To
        continue would spread the loss, so this replica stops and keeps its records until an operator decides.
        """
        self.fail(
            self.log.refuse_writes(
                f"the log of the leader, broker {leader}, contradicts the log in {self.log.directory}: "
                f"{error.message}. "
                "This replica stops and drops nothing. If the leader is right, stop this broker, remove that "
                "directory and start it again: it then copies everything from the leader. Otherwise the "
                "directory holds committed records that the leader lacks: keep a copy of it"
            )
        )

    # --- syncing --------------------------------------------------------------------------------------------

    def _sync_if_needed(self) -> None:
        if self.replica.limits.durable and self.log.synced_end_offset < self.log.end_offset:
            self.listener.syncer.want(self)

    def sync_now(self) -> None:
        """From here on the records in the log count, whatever ``flush.messages`` says, so they must be
        synced. Blocks. Raises StorageError.
        """
        if self.log.synced_end_offset < self.log.end_offset:
            self.log.sync_now()

    def is_synced_to(self, end_offset: int) -> bool:
        """Whether everything before ``end_offset`` is synced, and acknowledgements require a sync from now
        on.
        """
        whole = self.log.failure is None and self.damage.offset is None and not self.closed
        return whole and self.replica.limits.durable and self.log.synced_end_offset >= end_offset

    def synced(self) -> None:
        """More of the log is durable than before."""
        if self.closed:
            return
        self.run(self.replica.synced())
        self.restorer.synced()
        self.listener.grown(self)

    def sync_failed(self, error: StorageError) -> None:
        if self.closed:
            return
        if self.log.failure is None:
            # A temporary failure: too many open files. Nothing was acknowledged, and nothing is lost.
            logger.warning("%s: %s", self.key, error.message)
            self.services.later(SYNC_AGAIN_MS, lambda: self.listener.syncer.want(self))
        else:
            self.fail(error)
