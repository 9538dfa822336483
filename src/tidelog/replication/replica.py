"""One replica of a partition: the state machine behind all modes.

======== ======================= ==================================================================
role     enters by               does
======== ======================= ==================================================================
idle     creation                nothing; knows no leader
leader   :meth:`Replica.lead`    appends, tracks followers, moves the high watermark, completes produces
follower :meth:`Replica.follow`  fetches, truncates at a divergence, adopts the leader's high watermark
======== ======================= ==================================================================

Every change of leader or epoch goes through ``lead`` or ``follow``. Nothing here appends: the driver does,
and reports it with :meth:`Replica.appended`. The log is queried only for its offsets and its epochs.

================================================ =============================================================
part                                             owns
================================================ =============================================================
:mod:`tidelog.replication.watermark`             how far the log is committed, and how sure that is
:mod:`tidelog.replication.progress`              what a leader knows of each follower
:mod:`tidelog.replication.in_sync_proposals`     the leader's proposals for another in-sync set
:mod:`tidelog.replication.pending_produces`      produces that wait for their acknowledgement
:mod:`tidelog.replication.divergence`            where two logs part (functions)
:mod:`tidelog.replication.policies`              the rules of a mode: what is committed, what is acknowledged
================================================ =============================================================
"""

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import NamedTuple, cast

from tidelog.errors import ErrorCode
from tidelog.invariant import invariant
from tidelog.machine import Machine
from tidelog.replication.divergence import ReplicaLog, common_end_offset, divergence, last_epoch_of
from tidelog.replication.effects import (
    BeginEpoch,
    Degrade,
    Effects,
    Truncate,
    new_commit,
)
from tidelog.replication.in_sync_proposals import InSyncProposals
from tidelog.replication.limits import Limits
from tidelog.replication.pending_produces import PendingProduces
from tidelog.replication.policies.degrading import Degrading
from tidelog.replication.policies.policy import Policy
from tidelog.replication.progress import Progress
from tidelog.replication.view import WAIT, YES, Refuse
from tidelog.replication.watermark import Watermark
from tidelog.types import NO_BROKER, NO_EPOCH

NO_LIMIT = 1 << 62  # an offset beyond every log
NOTHING_SAFE = -1  # instead of a safe end offset: another replica may lead already
CUTS_COMMITTED = "truncation below the high watermark"  # An invariant: a leader holds everything committed.


class Role(Enum):
    IDLE = "idle"
    LEADER = "leader"
    FOLLOWER = "follower"


class FetchResult(NamedTuple):
    """The result of a follower's fetch: serve it, report the divergence, or refuse it."""

    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None  # (epoch, end offset) in the leader's history
    effects: Effects = []  # noqa: RUF012 - never mutated


# The same as calling the class, but one call less: see effects.
_new_fetch_result: Callable[[tuple[ErrorCode, tuple[int, int] | None, Effects]], FetchResult] = partial(
    tuple.__new__, FetchResult
)


class Replica(Machine):
    SURROUNDINGS = frozenset({"log", "safe_end_offset"})

    __slots__ = (
        "_degrading", "_held_back", "_led_epoch", "_pending", "_quiescent_end_offset", "base_epoch", "epoch",
        "epoch_start_offset", "handing_over", "in_sync", "leader", "limits", "log", "maximal_in_sync", "me",
        "open_to_observers", "partition_epoch", "policy", "progress", "proposals", "replicas", "role",
        "safe_end_offset", "sealed_end_offset", "uncounted", "watermark",
    )  # fmt: skip

    def __init__(
        self,
        me: int,
        log: ReplicaLog,
        policy: Policy,
        limits: Limits,
        high_watermark: int = 0,
        *,
        log_confirmed: bool = False,
        epoch: int = NO_EPOCH,
        replicas: tuple[int, ...] = (),
        base_epoch: int = NO_EPOCH,
        open_to_observers: bool = False,
    ) -> None:
        self.me = me
        self.log = log
        self.policy = policy
        self.limits = limits
        self.role = Role.IDLE
        self.epoch: int = epoch
        self.leader: int = NO_BROKER
        self.replicas: tuple[int, ...] = replicas
        self.in_sync: tuple[int, ...] = ()
        self.maximal_in_sync: frozenset[int] = frozenset()
        self.partition_epoch = -1
        self.epoch_start_offset = 0
        self.watermark = Watermark(
            high_watermark,
            log.start_offset,
            log.end_offset,
            log.synced_end_offset,
            log_confirmed=log_confirmed,
        )
        self.progress: dict[int, Progress] = {}
        # Replicas that are about to be removed. Their copies do not count where copies are counted.
        self.uncounted: frozenset[int] = frozenset()
        # Epoch of the last record before the log start, where a snapshot replaces the beginning of the log.
        self.base_epoch: int = base_epoch
        # Whether nodes that are not replicas may fetch, without being counted: brokers fetch the metadata
        # log.
        self.open_to_observers = open_to_observers
        # Exclusive, while this replica leads a log that ends in a seal: nothing more is accepted or
        # committed.
        self.sealed_end_offset: int | None = None
        # Exclusive: nothing from here on may be committed now. Another replica may have become leader without
        # our knowledge, and followers that do not know that yet may still follow us.
        self.safe_end_offset: Callable[[], int] = lambda: NO_LIMIT
        self._held_back = False  # Whether only this keeps the high watermark from advancing.
        self.handing_over = False  # Another replica is about to lead: produces are refused.
        self._led_epoch: int = NO_EPOCH
        self._quiescent_end_offset = 0  # Exclusive: the log end offset when it was last quiescent.
        self.proposals = InSyncProposals()
        self._degrading = Degrading()
        self._pending = PendingProduces()

    # --- the view for policies ------------------------------------------------------------------------------

    @property
    def min_in_sync(self) -> int:
        """Number of copies that are enough now."""
        copies = self._degrading.copies
        return self.limits.min_in_sync if copies is None else copies

    @property
    def durable_end_offset(self) -> int:
        return self.log.synced_end_offset if self.limits.durable else self.log.end_offset

    @property
    def high_watermark(self) -> int:
        """Exclusive: everything below is committed."""
        return self.watermark.offset

    @property
    def readable_end_offset(self) -> int:
        """Exclusive: readers get the records below it."""
        watermark = self.watermark
        if watermark.log_confirmed:
            return watermark.offset
        return watermark.readable_end_offset(self.log.start_offset)

    # --- settings -------------------------------------------------------------------------------------------

    def set_limits(self, limits: Limits, uncounted: frozenset[int] | None = None) -> Effects:
        """The topic's settings have changed. ``uncounted``: replicas whose copies do not count; None:
        unchanged.
        """
        self.limits = limits
        if uncounted is not None:
            self.uncounted = uncounted
        return self._advance_and_recheck() if self.role is Role.LEADER else []

    def set_policy(self, policy: Policy) -> None:
        """The partition has another replication mode. Its role in that mode is set next."""
        self.policy = policy

    def set_replicas(self, replicas: tuple[int, ...]) -> None:
        """The replicas have changed while another replica leads. A leader learns of them by :meth:`lead`."""
        invariant(self.role is not Role.LEADER, "a leader tracks its replicas", self.me, self.epoch)
        self.replicas = replicas

    def set_base_epoch(self, epoch: int) -> None:
        """A snapshot replaces everything before the log start; ``epoch`` wrote the last record of it."""
        self.base_epoch = epoch

    def admit_observers(self) -> None:
        """Nodes that are not replicas may fetch from now on, without being counted."""
        self.open_to_observers = True

    def ask_before_commit(self, safe_end_offset: Callable[[], int]) -> None:
        """Before the high watermark advances, ``safe_end_offset`` tells how far every replica that may lead
        by now would keep the records, or :data:`NOTHING_SAFE`. It is a query to the surroundings, like those
        to the log.
        """
        self.safe_end_offset = safe_end_offset

    # --- roles ----------------------------------------------------------------------------------------------

    def lead(
        self,
        epoch: int,
        replicas: tuple[int, ...],
        in_sync: tuple[int, ...],
        partition_epoch: int,
        now_ms: int,
    ) -> Effects:
        """Become leader in ``epoch``, or stay leader with other replicas or another in-sync set."""
        if epoch == self.epoch and self.role is Role.LEADER:
            return self._members_changed(replicas, in_sync, partition_epoch, now_ms)
        # Where replicas vote, a replica enters the epoch before the leader is known.
        entered = epoch == self.epoch and self.leader == NO_BROKER and self._led_epoch != epoch
        invariant(
            epoch > self.epoch or entered, "an epoch is led once, by one replica", epoch, self.epoch, self.me
        )
        effects = self._end_role(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.role = Role.LEADER
        self.sealed_end_offset = None
        self.watermark.led()
        self._degrading = Degrading()
        self.proposals.welcome_all()
        self.epoch = self._led_epoch = epoch
        self.leader = self.me
        self.partition_epoch = partition_epoch
        # Recorded in the epoch history before the first record: a follower that asks where an older epoch
        # ended must see this boundary even while this epoch is empty.
        self.epoch_start_offset = self.log.end_offset
        self.replicas = replicas
        self.progress = {replica: Progress(now_ms) for replica in replicas if replica != self.me}
        self._set_members(in_sync)
        effects.append(BeginEpoch(epoch, self.epoch_start_offset))
        return effects + self._advance_and_recheck()

    def follow(self, epoch: int, leader: int, replicas: tuple[int, ...], partition_epoch: int) -> Effects:
        """Follow ``leader`` (-1: no leader) in ``epoch``."""
        invariant(epoch >= self.epoch, "leader epochs only rise", epoch, self.epoch)
        # A leader may resign in its own epoch. It can never follow another leader in that epoch.
        leads = epoch == self.epoch and self.role is Role.LEADER
        invariant(not leads or leader == NO_BROKER, "two leaders in one epoch", epoch, self.me, leader)
        effects = self._end_role(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.role = Role.FOLLOWER
        self.sealed_end_offset = None
        self.epoch = epoch
        self.leader = leader
        self.replicas = replicas
        self.partition_epoch = partition_epoch
        self.progress = {}
        return effects

    def begin_hand_over(self) -> None:
        """Another replica is about to lead: refuse produces until it does, or until :meth:`end_hand_over`."""
        self.handing_over = self.role is Role.LEADER

    def end_hand_over(self) -> None:
        self.handing_over = False

    def seal(self, end_offset: int | None) -> None:
        """While leading: the log ends in a seal at ``end_offset``; None: it accepts records again."""
        if self.role is Role.LEADER:
            self.sealed_end_offset = end_offset

    def stop(self, error: ErrorCode) -> Effects:
        """The partition is removed, or its log has failed."""
        effects = self._end_role(error)
        self.role = Role.IDLE
        self.leader = NO_BROKER
        return effects

    def _end_role(self, error: ErrorCode) -> Effects:
        self._held_back = False
        self.proposals.drop()
        return self.cannot_write(error)

    def cannot_write(self, error: ErrorCode) -> Effects:
        """The role ends, or the disk accepts no writes. Pending produces fail with ``error``, because this
        replica cannot complete them any more.

        A leader whose disk fails still serves reads, and its high watermark still advances. Its proposal
        stays pending: the controllers may have accepted it already, and the new member may lead next.
        """
        if self.role is not Role.LEADER:
            self.proposals.drop()
        self.handing_over = False
        return self._pending.refuse_all(error)

    def _members_changed(
        self, replicas: tuple[int, ...], in_sync: tuple[int, ...], partition_epoch: int, now_ms: int
    ) -> Effects:
        unchanged = (replicas, in_sync) == (self.replicas, self.in_sync)
        if partition_epoch < self.partition_epoch:
            return []  # a late message about an older state
        if partition_epoch == self.partition_epoch and unchanged:
            # The same state, from a snapshot. It does not answer a proposal that was based on it.
            return []
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        for replica in replicas:
            if replica != self.me and replica not in self.progress:
                self.progress[replica] = Progress(now_ms)
        for replica in [known for known in self.progress if known not in replicas]:
            del self.progress[replica]
        self.proposals.decided(in_sync, partition_epoch, unchanged=unchanged)
        self._set_members(in_sync)
        return self._advance_and_recheck() + self._invite_one()

    def restarted(self, replica: int, now_ms: int) -> None:
        """A new process acts for this replica: what it holds is not known yet."""
        if replica in self.progress:
            self.progress[replica] = Progress(now_ms)

    def invite(self) -> Effects:
        """Propose a follower that holds everything and is not a member. A follower with nothing to fetch
        sends no new request. It would stay outside until the next append, which may be refused because of too
        few members.
        """
        self.proposals.welcome_all()
        return self._invite_one()

    def _invite_one(self) -> Effects:
        if self.role is Role.LEADER and self.policy.tracks_in_sync:
            for replica, progress in self.progress.items():
                if replica in self.maximal_in_sync or not self.proposals.is_welcome(replica):
                    continue
                if progress.holds(self.log.end_offset):
                    return self._maybe_join(replica, progress)
        return []

    def has_resigned(self, epoch: int) -> bool:
        """Whether it has led this epoch and stepped down: it cannot lead the same epoch again."""
        return self._led_epoch == epoch == self.epoch and self.role is not Role.LEADER

    def _set_members(self, in_sync: tuple[int, ...]) -> None:
        self.in_sync = in_sync
        self.maximal_in_sync = frozenset(in_sync)

    # --- leading --------------------------------------------------------------------------------------------

    def before_append(self, acks: int) -> ErrorCode:
        """NONE if a produce may be appended now, otherwise the error."""
        if self.role is not Role.LEADER or self.sealed_end_offset is not None or self.handing_over:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        queue = self._pending.queues.get(acks)
        if queue is not None and len(queue) >= self.limits.pending_max:
            return ErrorCode.REQUEST_TIMED_OUT
        refusal = self.policy.before_append(self, acks)
        return ErrorCode.NONE if refusal is None else refusal.code

    def appended(self) -> Effects:
        """The driver has appended to the log."""
        invariant(self.role is Role.LEADER, "only a leader appends", self.role, self.epoch)
        if self.limits.durable or not self.policy.commits_alone(self):
            return []  # Other replicas have to hold it first, so an append alone commits nothing.
        return self._advance()

    def synced(self) -> Effects:
        """More of the log is durable than before."""
        return self._advance_and_recheck() if self.role is Role.LEADER and self.limits.durable else []

    def verdict(self, end_offset: int, acks: int) -> ErrorCode | None:
        """The result of the produce that ends at ``end_offset``. None: it must :meth:`wait`."""
        verdict = self.policy.acknowledged(self, end_offset, acks)
        if verdict is YES:
            return ErrorCode.NONE
        return None if verdict is WAIT else cast(Refuse, verdict).code

    def wait(self, end_offset: int, acks: int, deadline_ms: int, token: int) -> None:
        """There is no verdict yet: ``token`` is completed when the produce is acknowledged or refused."""
        self._pending.add(end_offset, acks, deadline_ms, token)

    def fetched(
        self, replica: int, epoch: int, offset: int, last_epoch: int, log_start_offset: int, now_ms: int
    ) -> FetchResult:
        """A follower fetches from ``offset``; ``last_epoch`` wrote the record before it."""
        error = self.check_epoch(epoch)
        if error is ErrorCode.NONE and self.role is not Role.LEADER:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        progress = self.progress.get(replica)
        if error is ErrorCode.NONE and progress is None and not self.open_to_observers:
            # Not a replica that we know; our metadata may be older than the follower's.
            error = ErrorCode.UNKNOWN_LEADER_EPOCH
        if error is not ErrorCode.NONE:
            return FetchResult(error)
        if last_epoch < self.base_epoch:
            # Its log may diverge from ours before our log start. Only the snapshot is certain to be right.
            return FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE)
        diverging = divergence(self.log, self.base_epoch, offset, last_epoch, log_start_offset)
        if diverging is not None:
            # This tells nothing about what the follower holds, so it is not an acknowledgement.
            return FetchResult(diverging=diverging)
        if offset > self.log.end_offset or offset < self.log.start_offset:
            return FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE)
        if progress is None:
            return FetchResult()
        progress.fetched(offset, self.log.end_offset, now_ms)
        progress.log_start_offset = log_start_offset
        if self.policy.tracks_in_sync and replica not in self.maximal_in_sync:
            return FetchResult(effects=self._maybe_join(replica, progress) + self._advance())
        return _new_fetch_result((ErrorCode.NONE, None, self._advance()))

    def lent(self, epoch: int, offset: int, last_epoch: int, log_start_offset: int) -> FetchResult:
        """The leader itself fetches from ``offset``: it may lack records that we hold."""
        error = self.check_epoch(epoch)
        if error is not ErrorCode.NONE:
            return FetchResult(error)
        diverging = divergence(self.log, self.base_epoch, offset, last_epoch, log_start_offset)
        if diverging is not None:
            return FetchResult(diverging=diverging)
        within = self.log.start_offset <= offset <= self.log.end_offset
        return FetchResult() if within else FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE)

    def _maybe_join(self, replica: int, progress: Progress) -> Effects:
        """Propose a follower as a member if it holds everything that is committed, everything from before
        this epoch, and nothing that was deleted.

        Without the second condition a follower that was never told where the last epoch ended could join
        while it lacks records that the high watermark, still behind, is about to pass.
        """
        if not self.proposals.may_add(replica):
            return []
        if progress.end_offset < max(self.watermark.offset, self.epoch_start_offset):
            return []
        if not progress.has_deleted(self.log.start_offset):
            return []
        # The high watermark waits for it from now on: if the controller confirms, it was a member from this
        # moment.
        self.maximal_in_sync = self.maximal_in_sync | {replica}
        return self._propose((*self.in_sync, replica))

    def _propose(self, members: tuple[int, ...]) -> Effects:
        return self.proposals.propose(members, self.epoch, self.partition_epoch)

    def propose_itself(self) -> Effects:
        """Propose this replica as the only member: it lacks nothing any more and can lead, as it was
        appointed to.
        """
        return self._propose((self.me,))

    def propose_holders(self) -> Effects:
        """Propose the replicas that hold all of a sealed log, once they are enough for an acknowledgement. No
        effects if it is too early, or if they are proposed already.
        """
        invariant(self.sealed_end_offset is not None, "only a sealed log is handed over", self.me, self.epoch)
        members = self._holders()
        if members is None or members == self.proposals.pending:
            return []
        return self.proposals.propose(members, self.epoch, self.partition_epoch, sealed=True)

    def _holders(self) -> tuple[int, ...] | None:
        """Holding the seal is not enough: in an earlier period a seal may have been followed by committed
        records. Nor is it enough that others have synced what is committed: every member of an in-sync set
        may lead after a power failure, so the leader, which becomes one, must have synced it as well.
        """
        end_offset = self.log.end_offset
        if min(self.policy.committed(self), self.durable_end_offset) < end_offset:
            return None
        holders = {
            follower: progress for follower, progress in self.progress.items() if progress.holds(end_offset)
        }
        able = self.policy.holders_of_sealed(self, holders, self.log.start_offset)
        return None if able is None else (self.me, *able)

    def proposal_refused(self, *, recorded: bool = False) -> Effects:
        """The controller refused the proposal: the in-sync set that it confirmed last remains valid.
        ``recorded``: a metadata record will tell of the refusal, too.
        """
        if self.proposals.pending is None:
            return []
        if recorded:
            self.proposals.refusal_recorded(self.partition_epoch)
        if self.role is not Role.LEADER:
            self.proposals.drop()
            return []
        self.proposals.refused(self.in_sync)
        self.maximal_in_sync = frozenset(self.in_sync)
        return self._advance_and_recheck() + self._invite_one()

    def tick(self, now_ms: int) -> Effects:
        """Remove members that lag, and expire produces."""
        effects = self._pending.expire(now_ms, self.policy.too_late)
        if self.role is not Role.LEADER:
            return effects
        if not self._pending.is_empty and self._may_be_succeeded():
            # Clients would wait for their timeout here, while the successor takes writes.
            effects += self._pending.refuse_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._held_back:
            effects += self._advance_and_recheck()
        if self.policy.may_degrade(self.limits):
            effects += self._degrade(now_ms)
        if self.policy.drops_laggards and self.proposals.pending is None:
            end_offset, lag_max_ms = self.log.end_offset, self.limits.lag_max_ms
            keep_up = tuple(
                member
                for member in self.in_sync
                if member == self.me or not self.progress[member].lags(end_offset, now_ms, lag_max_ms)
            )
            if keep_up != self.in_sync:
                # Until the controller confirms, the high watermark waits for the old set.
                effects += self._propose(keep_up)
        return effects

    def _degrade(self, now_ms: int) -> Effects:
        limits = self.limits
        changed = self._degrading.look(
            self, limits.min_in_sync, limits.degrade_after_ms, self.log.end_offset, now_ms
        )
        return [Degrade(self._degrading.copies), *self._advance_and_recheck()] if changed else []

    def is_quiescent(self) -> bool:
        """Whether this replica needs no ticks: no produce is pending, and every member holds everything.

        Followers of a quiescent partition send no new requests until something is appended. :meth:`stirred`
        accounts for that then, because their silence means nothing.
        """
        if self.role is not Role.LEADER:
            return True
        if self.proposals.pending is not None or self._held_back or not self._pending.is_empty:
            return False
        limits = self.limits
        if (self._degrading.copies or len(self.in_sync) < limits.min_in_sync) and self.policy.may_degrade(
            limits
        ):
            return False
        end_offset = self.log.end_offset
        if self.policy.tracks_in_sync:
            for member in self.maximal_in_sync:
                if member != self.me and not self.progress[member].holds(end_offset):
                    return False
        self._quiescent_end_offset = end_offset
        return True

    def stirred(self, now_ms: int) -> None:
        """The first append after the partition was quiescent: followers that were caught up then have been so
        until now.
        """
        for progress in self.progress.values():
            if progress.holds(self._quiescent_end_offset):
                progress.caught_up_ms = now_ms

    def _advance(self) -> Effects:
        """Advance the high watermark as far as the policy allows, and complete the produces below it."""
        committed = self.policy.committed(self)
        if self.sealed_end_offset is not None:
            committed = min(committed, self.sealed_end_offset)
        watermark = self.watermark
        if committed <= watermark.offset:
            return []
        invariant(committed <= self.log.end_offset, "committed past the end of the log", committed)
        safe = self.safe_end_offset() if self.progress else NO_LIMIT
        self._held_back = safe < committed
        if self._held_back:
            committed = safe
            if committed <= watermark.offset:
                return []
        watermark.offset = committed
        effects: Effects = [new_commit((committed,))]
        if self._pending.queues:
            self._pending.complete(self.policy, self, committed, effects)
        return effects

    def _safe_end_offset(self) -> int:
        # Without another replica no other leader is possible.
        return self.safe_end_offset() if self.progress else NO_LIMIT

    def _may_be_succeeded(self) -> bool:
        return self._safe_end_offset() == NOTHING_SAFE

    def _advance_and_recheck(self) -> Effects:
        """The same, when more has changed than what followers hold: any pending produce may be refused now,
        or need fewer copies than before.
        """
        effects = self._advance()
        self._pending.recheck(self.policy, self, effects)
        return effects

    # --- following ------------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """The epoch of the newest record, even if retention has deleted it."""
        return last_epoch_of(self.log, self.base_epoch)

    def diverged(
        self,
        epoch: int,
        leader_epoch_end: tuple[int, int],
        *,
        unclean: bool = False,
        from_start: bool = False,
    ) -> Effects:
        """The leader reports that our newest record is not in its history, and where its own epoch ended.

        Up to there both logs are equal in that epoch; what we have beyond is dropped. If we do not have the
        reported epoch either, the next fetch finds an older one. ``from_start``: what both have is dropped,
        too, and fetched again. It stays committed.
        """
        if self.role is not Role.FOLLOWER or epoch != self.epoch:
            return []
        target = common_end_offset(self.log, leader_epoch_end)
        invariant(
            unclean or not self.cuts_committed(leader_epoch_end),
            CUTS_COMMITTED, self.me, target, self.watermark.offset, self.epoch,
        )  # fmt: skip
        self.watermark.diverged(target, unclean=unclean)
        if from_start:
            target = min(target, self.log.start_offset)
            self.watermark.log_damaged_from(target)
        return [Truncate(target)]

    def cuts_committed(self, leader_epoch_end: tuple[int, int]) -> bool:
        """Whether we would truncate records that we know to be committed."""
        target = common_end_offset(self.log, leader_epoch_end)
        return self.watermark.log_confirmed and target < self.watermark.offset

    def received(self, epoch: int, leader_high_watermark: int) -> Effects:
        """The leader's records are in our log. Adopt its high watermark as far as our log reaches."""
        if self.role is not Role.FOLLOWER or epoch != self.epoch:
            return []
        log = self.log
        return self.watermark.received(epoch, log.start_offset, log.end_offset, leader_high_watermark)

    def stand_in(self, acted_epoch: int) -> Effects:
        """There is no leader, and this replica serves readers. More may be committed than the last leader
        could say; ``acted_epoch`` is the epoch in which it could commit anything.
        """
        if self.role is not Role.FOLLOWER:
            return []
        confirmed = self.watermark.confirmed_in(acted_epoch, self.log.end_offset)
        return self.watermark.stand_in(self.policy.committed_without_leader(self, confirmed))

    # --- all roles ------------------------------------------------------------------------------------------

    def check_epoch(self, epoch: int) -> ErrorCode:
        """Check the leader epoch of a request."""
        if epoch in (NO_EPOCH, self.epoch):
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    def story(self) -> str:
        """One line for a failing test or a log."""
        followers = ", ".join(
            f"{replica}@{each.end_offset}" for replica, each in sorted(self.progress.items())
        )
        return (
            f"replica {self.me} {self.role.value} epoch {self.epoch} leader {self.leader} "
            f"log {self.log.start_offset}..{self.log.end_offset} watermark {self.high_watermark} "
            f"in sync {sorted(self.maximal_in_sync)} followers [{followers}]"
        )
