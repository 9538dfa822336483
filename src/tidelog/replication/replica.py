"""One replica of a partition: the state machine behind all modes.

======== ======================= ==================================================================
role     enters by               does
======== ======================= ==================================================================
idle     creation                nothing; knows no leader
leader   :meth:`Replica.lead`    appends, tracks followers, moves the high watermark, settles produces
follower :meth:`Replica.follow`  fetches, truncates at a divergence, adopts the leader's high watermark
======== ======================= ==================================================================

Every change of leader or epoch goes through ``lead`` or ``follow``. Nothing here appends: the driver does,
and reports it with :meth:`Replica.appended`. The log is queried only for its offsets and its epochs.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import NamedTuple, Protocol, cast

from tidelog.errors import ErrorCode
from tidelog.invariant import invariant
from tidelog.machine import Machine
from tidelog.replication.degrading import Degrading
from tidelog.replication.effects import (
    BeginEpoch,
    Commit,
    CompleteProduce,
    Degrade,
    Effects,
    ProposeInSync,
    Truncate,
    new_commit,
    new_complete_produce,
)
from tidelog.replication.policies import Policy
from tidelog.replication.progress import Progress
from tidelog.replication.view import WAIT, YES, Refuse
from tidelog.types import NO_BROKER, NO_EPOCH

CUTS_COMMITTED = "truncation below the high watermark"  # An invariant: a leader holds everything committed.


class Role(Enum):
    IDLE = "idle"
    LEADER = "leader"
    FOLLOWER = "follower"


class Epochs(Protocol):
    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]: ...

    def epoch_at(self, offset: int) -> int: ...


class ReplicaLog(Protocol):
    """What a replica may query from its log."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def synced_end_offset(self) -> int: ...

    @property
    def epochs(self) -> Epochs: ...


class Limits(NamedTuple):
    """The topic's settings that a replica needs."""

    min_in_sync: int = 1
    lag_max_ms: int = 10_000
    durable: bool = False  # Whether acknowledged records must be synced.
    waiting_max: int = 10_000  # maximum number of waiting produces
    degrade_after_ms: int = -1  # Without enough copies for this long, fewer are enough; -1: never.


class PendingProduce(NamedTuple):
    end_offset: int
    acks: int
    deadline_ms: int
    token: int


# The same as calling the class, but one call less: see effects.
new_waiting: Callable[[tuple[int, int, int, int]], PendingProduce] = partial(tuple.__new__, PendingProduce)


class FetchResult(NamedTuple):
    """The result of a follower's fetch: serve it, report the divergence, or refuse it."""

    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None  # (epoch, end offset) in the leader's history
    effects: Effects = []  # noqa: RUF012 - never mutated


class Replica(Machine):
    SURROUNDINGS = frozenset({"log", "is_doubted"})

    __slots__ = (
        "_degrading",
        "_held_back",
        "_led_epoch",
        "_proposed",
        "_refused_epoch",
        "_settled_end_offset",
        "_synced_before",
        "_unwelcome",
        "_waiting",
        "agreed",
        "base_epoch",
        "committed_seen",
        "epoch",
        "epoch_start_offset",
        "handing_over",
        "high_watermark",
        "in_sync",
        "is_doubted",
        "is_sure",
        "leader",
        "limits",
        "log",
        "maximal_in_sync",
        "me",
        "open_to_observers",
        "partition_epoch",
        "policy",
        "progress",
        "replicas",
        "role",
        "sealed_end_offset",
        "uncounted",
    )

    def __init__(
        self,
        me: int,
        log: ReplicaLog,
        policy: Policy,
        limits: Limits,
        high_watermark: int = 0,
        *,
        is_sure: bool = False,
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
        # Exclusive. Everything below is committed. It never moves back, unless an unclean election lost
        # records. After a crash the log may end before the checkpointed value, or start after it: only
        # committed records are ever deleted.
        self.high_watermark = min(max(high_watermark, log.start_offset), log.end_offset)
        # Whether this process has led or has had its log confirmed by a leader, or an earlier process had and
        # the machine has not lost power since. Until then the high watermark is only a checkpoint, and a
        # power failure may have replaced the records below it by older ones.
        self.is_sure = is_sure
        # Exclusive. Everything below was synced before this process started, so a power failure has not
        # changed it.
        self._synced_before = max(log.synced_end_offset, log.start_offset)
        # (epoch, end offset): in which epoch, and up to which offset, our log was last known to be a prefix
        # of its leader's. Forgotten at a restart: the log may be shorter then, or be what it was before a
        # truncation.
        self.agreed: tuple[int, int] = (NO_EPOCH, 0)
        # The highest high watermark that any leader has reported. It is beyond our log end while we lack
        # records.
        self.committed_seen = high_watermark
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
        # Whether another replica may have become leader without our knowledge. After an operator has replaced
        # this leader, a member that does not know that yet may still follow it: nothing may be committed
        # then.
        self.is_doubted: Callable[[], bool] = lambda: False
        self._held_back = False  # Whether only this doubt keeps the high watermark from advancing.
        self.handing_over = False  # Another replica is about to lead: produces are refused.
        self._led_epoch: int = NO_EPOCH
        self._settled_end_offset = 0  # Exclusive: the log end offset when this partition last settled.
        self._proposed: tuple[int, ...] | None = None
        # Replicas whose proposal was refused since the in-sync set last changed or a replica came back. They
        # are not proposed again before :meth:`invite`.
        self._unwelcome: frozenset[int] = frozenset()
        self._refused_epoch = -1  # partition epoch at which a proposal was last refused
        self._degrading = Degrading()
        # One queue per acks value: each is settled in order, and a produce with acks=1 does not wait behind
        # one with acks=all.
        self._waiting: dict[int, deque[PendingProduce]] = {}

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
    def readable_end_offset(self) -> int:
        """Exclusive: readers get the records below it, each of which is the one that was committed at its
        offset.

        After a power failure it is less than the high watermark until a leader confirms our log. A truncated
        tail may have reappeared, while the checkpointed high watermark refers to the records that replaced
        it. It is never below the log start offset, which may have risen since: there are no records before.
        """
        if self.is_sure:
            return self.high_watermark
        return min(self.high_watermark, max(self._synced_before, self.log.start_offset))

    # --- settings -------------------------------------------------------------------------------------------

    def set_limits(self, limits: Limits, uncounted: frozenset[int] | None = None) -> Effects:
        """The topic's settings have changed. ``uncounted``: replicas whose copies do not count; None:
        unchanged.
        """
        self.limits = limits
        if uncounted is not None:
            self.uncounted = uncounted
        return self._advance_and_look_again() if self.role is Role.LEADER else []

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

    def ask_before_commit(self, is_doubted: Callable[[], bool]) -> None:
        """Before the high watermark advances, ``is_doubted`` tells whether another replica may lead by now.
        It is a query to the surroundings, like those to the log.
        """
        self.is_doubted = is_doubted

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
        effects = self._leave_role(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.role = Role.LEADER
        self.sealed_end_offset = None
        self.is_sure = True
        self._degrading = Degrading()
        self._unwelcome = frozenset()
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
        return effects + self._advance_and_look_again()

    def follow(self, epoch: int, leader: int, replicas: tuple[int, ...], partition_epoch: int) -> Effects:
        """Follow ``leader`` (-1: no leader) in ``epoch``."""
        invariant(epoch >= self.epoch, "leader epochs only rise", epoch, self.epoch)
        # A leader may resign in its own epoch. It can never follow another leader in that epoch.
        leads = epoch == self.epoch and self.role is Role.LEADER
        invariant(not leads or leader == NO_BROKER, "two leaders in one epoch", epoch, self.me, leader)
        effects = self._leave_role(ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
        effects = self._leave_role(error)
        self.role = Role.IDLE
        self.leader = NO_BROKER
        return effects

    def cannot_write(self, error: ErrorCode) -> Effects:
        """The disk accepts no writes: waiting produces fail with ``error``. Reads are still served."""
        return self._leave_role(error)

    def _leave_role(self, error: ErrorCode) -> Effects:
        """Waiting produces fail with ``error``, because this replica cannot complete them any more."""
        effects: Effects = [
            CompleteProduce(each.token, error) for queue in self._waiting.values() for each in queue
        ]
        self._waiting.clear()
        self._held_back = False
        self._proposed = None
        self.handing_over = False
        return effects

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
        proposed, self._proposed = self._proposed, None
        self._set_members(in_sync)
        if unchanged and (proposed is not None or self._refused_epoch == partition_epoch - 1):
            # The proposal was refused, or is void for another reason. Repeating it at once could go on
            # forever, and cost a metadata record each time.
            self._unwelcome |= frozenset(proposed or ()).difference(in_sync)
            return self._advance_and_look_again() + self._invite_one()
        return self._advance_and_look_again() + self.invite()

    def restarted(self, replica: int, now_ms: int) -> None:
        """A new process acts for this replica: what it holds is not known yet."""
        if replica in self.progress:
            self.progress[replica] = Progress(now_ms)

    def invite(self) -> Effects:
        """Propose a follower that holds everything and is not a member. A follower with nothing to fetch
        sends no new request. It would stay outside until the next append, which may be refused because of too
        few members.
        """
        self._unwelcome = frozenset()
        return self._invite_one()

    def _invite_one(self) -> Effects:
        if self.role is Role.LEADER and self.policy.tracks_in_sync:
            for replica, progress in self.progress.items():
                if replica in self.maximal_in_sync or replica in self._unwelcome:
                    continue
                if progress.seen and progress.end_offset >= self.log.end_offset:
                    return self._maybe_join(replica, progress)
        return []

    def has_resigned(self, epoch: int) -> bool:
        """Whether it has led this epoch and stepped down: it cannot lead the same epoch again."""
        return self._led_epoch == epoch == self.epoch and self.role is not Role.LEADER

    def is_copied(self) -> bool:
        """Whether another member of the in-sync set holds our whole log."""
        return any(
            progress.seen and progress.end_offset >= self.log.end_offset
            for replica, progress in self.progress.items()
            if replica in self.in_sync
        )

    def has_deleted(self, progress: Progress) -> bool:
        """Whether a follower has deleted everything that we have. A deletion may have been acknowledged while
        the follower could not lead. It must learn of it before it can, or the records would return.
        """
        return progress.log_start_offset >= self.log.start_offset

    def has_copies_of(self, end_offset: int) -> bool:
        """Whether as many replicas as the topic requires hold everything before ``end_offset``. Only a leader
        can tell.
        """
        held = [
            replica
            for replica, each in self.progress.items()
            if replica not in self.uncounted and each.seen and each.end_offset >= end_offset
        ]
        leads = self.role is Role.LEADER and self.durable_end_offset >= end_offset
        return leads and 1 + len(held) >= self.limits.min_in_sync

    def _set_members(self, in_sync: tuple[int, ...]) -> None:
        self.in_sync = in_sync
        self.maximal_in_sync = frozenset(in_sync)

    # --- leading --------------------------------------------------------------------------------------------

    def before_append(self, acks: int) -> ErrorCode:
        """NONE if a produce may be appended now, otherwise the error."""
        if self.role is not Role.LEADER or self.sealed_end_offset is not None or self.handing_over:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        queue = self._waiting.get(acks)
        if queue is not None and len(queue) >= self.limits.waiting_max:
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
        return self._advance_and_look_again() if self.role is Role.LEADER and self.limits.durable else []

    def wait(self, end_offset: int, acks: int, deadline_ms: int, token: int) -> CompleteProduce | None:
        """The result of the produce that ends at ``end_offset``. None: ``token`` is settled later, when the
        produce is acknowledged or refused.
        """
        verdict = self.policy.acknowledged(self, end_offset, acks)
        if verdict is WAIT:
            queue = self._waiting.get(acks)
            if queue is None:
                queue = self._waiting[acks] = deque()
            queue.append(new_waiting((end_offset, acks, deadline_ms, token)))
            return None
        return new_complete_produce((token, ErrorCode.NONE if verdict is YES else cast(Refuse, verdict).code))

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
        diverging = self._divergence(offset, last_epoch)
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
        return FetchResult(effects=self._advance())

    def lent(self, epoch: int, offset: int, last_epoch: int) -> FetchResult:
        """The leader itself fetches from ``offset``: it may lack records that we hold."""
        error = self.check_epoch(epoch)
        if error is not ErrorCode.NONE:
            return FetchResult(error)
        diverging = self._divergence(offset, last_epoch)
        if diverging is not None:
            return FetchResult(diverging=diverging)
        within = self.log.start_offset <= offset <= self.log.end_offset
        return FetchResult() if within else FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE)

    def _divergence(self, offset: int, last_epoch: int) -> tuple[int, int] | None:
        if last_epoch < 0:
            return None
        if NO_EPOCH < self.base_epoch < last_epoch < self.log.epochs.epoch_at(self.log.start_offset):
            # Our history has nothing of that epoch. What came before our log start ended with an earlier one.
            return self.base_epoch, self.log.start_offset
        epoch, end_offset = self.log.epochs.end_offset_for(last_epoch, self.log.end_offset)
        if epoch == NO_EPOCH:
            return None
        if epoch < last_epoch or end_offset < offset:
            return epoch, end_offset
        return None

    def _maybe_join(self, replica: int, progress: Progress) -> Effects:
        """Propose a follower as a member if it holds everything that is committed, everything from before
        this epoch, and nothing that was deleted.

        Without the second condition a follower that was never told where the last epoch ended could join
        while it lacks records that the high watermark, still behind, is about to pass.
        """
        if self._proposed is not None or replica in self._unwelcome:
            return []
        if progress.end_offset < self.high_watermark or progress.end_offset < self.epoch_start_offset:
            return []
        if not self.has_deleted(progress):
            return []
        # The high watermark waits for it from now on: if the controller confirms, it was a member from this
        # moment.
        self.maximal_in_sync = self.maximal_in_sync | {replica}
        return self._propose((*self.in_sync, replica))

    def _propose(self, members: tuple[int, ...]) -> Effects:
        self._proposed = members
        return [ProposeInSync(members, self.epoch, self.partition_epoch)]

    def propose_itself(self) -> Effects:
        """Propose this replica as the only member: it lacks nothing any more and can lead, as it was
        appointed to.
        """
        return self._propose((self.me,))

    def propose_holders(self, members: tuple[int, ...]) -> None:
        """The replicas that hold all of a sealed log are proposed to the controllers."""
        invariant(self.sealed_end_offset is not None, "only a sealed log is handed over", self.me, self.epoch)
        self._proposed = members

    def proposal_refused(self, *, recorded: bool = False) -> Effects:
        """The controller refused the proposal: the in-sync set that it confirmed last remains valid.
        ``recorded``: a metadata record will tell of the refusal, too.
        """
        if self._proposed is None:
            return []
        if recorded:
            self._refused_epoch = self.partition_epoch
        if self.role is not Role.LEADER:
            self._proposed = None
            return []
        # Other followers that have caught up were not proposed while this proposal was pending. A dead one
        # must not keep them out.
        self._unwelcome |= frozenset(self._proposed).difference(self.in_sync)
        self._proposed = None
        self.maximal_in_sync = frozenset(self.in_sync)
        return self._advance_and_look_again() + self._invite_one()

    @property
    def proposed(self) -> tuple[int, ...] | None:
        """The pending proposal, until a response or new metadata ends it. The controller may never have
        received it, so it has to be repeated.
        """
        return self._proposed

    def tick(self, now_ms: int) -> Effects:
        """Remove members that lag, and expire produces."""
        effects = self._expire(now_ms)
        if self._held_back and self.role is Role.LEADER:
            effects += self._advance_and_look_again()
        if self._may_degrade:
            effects += self._degrade(now_ms)
        if self.role is Role.LEADER and self.policy.drops_laggards and self._proposed is None:
            stuck = [member for member in self.in_sync if member != self.me and self._lags(member, now_ms)]
            if stuck:
                # Until the controller confirms, the high watermark waits for the old set.
                effects += self._propose(tuple(member for member in self.in_sync if member not in stuck))
        return effects

    @property
    def _may_degrade(self) -> bool:
        """Whether fewer copies may become enough, so that this must be checked."""
        limits = self.limits
        return limits.degrade_after_ms >= 0 and limits.min_in_sync > 1 and self.role is Role.LEADER

    def _degrade(self, now_ms: int) -> Effects:
        limits = self.limits
        backups = [member for member in self.in_sync if member != self.me and member not in self.uncounted]
        changed = self._degrading.look(
            limits.min_in_sync, limits.degrade_after_ms, backups, self.progress, self.log.end_offset, now_ms
        )
        return [Degrade(self._degrading.copies), *self._advance_and_look_again()] if changed else []

    def settled(self) -> bool:
        """Whether this replica needs no ticks: no produce waits, and every member holds everything.

        Followers of a settled partition send no new requests until something is appended. :meth:`stirred`
        accounts for that then, because their silence means nothing.
        """
        if self.role is not Role.LEADER:
            return True
        if self._proposed is not None or self._held_back or any(self._waiting.values()):
            return False
        if self._may_degrade and (self._degrading.copies or len(self.in_sync) < self.limits.min_in_sync):
            return False
        end_offset = self.log.end_offset
        if self.policy.tracks_in_sync:
            for member in self.maximal_in_sync:
                if member != self.me:
                    progress = self.progress[member]
                    if not progress.seen or progress.end_offset < end_offset:
                        return False
        self._settled_end_offset = end_offset
        return True

    def stirred(self, now_ms: int) -> None:
        """The first append after the partition had settled: followers that were caught up then have been so
        until now.
        """
        for progress in self.progress.values():
            if progress.end_offset >= self._settled_end_offset and progress.seen:
                progress.caught_up_ms = now_ms

    def _lags(self, member: int, now_ms: int) -> bool:
        progress = self.progress[member]
        if progress.seen and progress.end_offset >= self.log.end_offset:
            return False
        return now_ms - progress.caught_up_ms > self.limits.lag_max_ms

    def _expire(self, now_ms: int) -> Effects:
        effects: Effects = []
        for queue in self._waiting.values():
            if not queue:
                continue
            expired = [waiting for waiting in queue if waiting.deadline_ms <= now_ms]
            for waiting in expired:
                queue.remove(waiting)
                effects.append(CompleteProduce(waiting.token, self.policy.too_late))
        return effects

    def _advance(self) -> Effects:
        """Advance the high watermark as far as the policy allows, and settle the produces below it."""
        committed = self.policy.committed(self)
        if self.sealed_end_offset is not None:
            committed = min(committed, self.sealed_end_offset)
        if committed <= self.high_watermark:
            return []
        invariant(committed <= self.log.end_offset, "committed past the end of the log", committed)
        # Without another replica no other leader is possible.
        self._held_back = bool(self.progress) and self.is_doubted()
        if self._held_back:
            return []
        self.high_watermark = committed
        effects: Effects = [new_commit((committed,))]
        for acks, queue in self._waiting.items():
            while queue and queue[0].end_offset <= committed:
                self._settle(acks, queue, effects)
        return effects

    def _advance_and_look_again(self) -> Effects:
        """The same, when more has changed than what followers hold: any waiting produce may be refused now,
        or need fewer copies than before.
        """
        effects = self._advance()
        for acks, queue in self._waiting.items():
            while queue and self._settle(acks, queue, effects):
                pass
        return effects

    def _settle(self, acks: int, queue: "deque[PendingProduce]", effects: Effects) -> bool:
        """Settle the first produce of a queue; returns whether it was complete."""
        verdict = self.policy.acknowledged(self, queue[0].end_offset, acks)
        if verdict is WAIT:
            return False
        code = ErrorCode.NONE if verdict is YES else cast(Refuse, verdict).code
        effects.append(new_complete_produce((queue.popleft().token, code)))
        return True

    # --- following ------------------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """The epoch of the newest record, even if retention has deleted it: an empty log is not older than
        one that still has the first of those records. -1 if there never was a record.
        """
        end_offset = self.log.end_offset
        if end_offset > self.log.start_offset:
            return self.log.epochs.epoch_at(end_offset - 1)
        return max(self.base_epoch, self.log.epochs.epoch_at(end_offset))

    def diverged(self, epoch: int, leader_epoch_end: tuple[int, int], *, unclean: bool = False) -> Effects:
        """The leader reports that our newest record is not in its history, and where its own epoch ended.

        Up to there both logs are equal in that epoch; what we have beyond is dropped. If we do not have the
        reported epoch either, the next fetch finds an older one.
        """
        if self.role is not Role.FOLLOWER or epoch != self.epoch:
            return []
        target = self._truncation(leader_epoch_end)
        invariant(
            unclean or not self.cuts_committed(leader_epoch_end),
            CUTS_COMMITTED, self.me, target, self.high_watermark, self.epoch,
        )  # fmt: skip
        self.high_watermark = min(self.high_watermark, target)
        self.agreed = (NO_EPOCH, 0)
        if unclean:
            self.committed_seen = self.high_watermark
        return [Truncate(target)]

    def cuts_committed(self, leader_epoch_end: tuple[int, int]) -> bool:
        """Whether we would truncate records that we know to be committed."""
        return self.is_sure and self._truncation(leader_epoch_end) < self.high_watermark

    def _truncation(self, leader_epoch_end: tuple[int, int]) -> int:
        """The offset at which our log diverges from the leader's. After an unclean election it may lie before
        our log start: then nothing of our log is left. If the log start were kept, we would wait until the
        leader's log reaches it.
        """
        asked, leader_end = leader_epoch_end
        own_epoch, own_end = self.log.epochs.end_offset_for(asked, self.log.end_offset)
        return leader_end if own_epoch == NO_EPOCH else min(leader_end, own_end)

    @property
    def lacks(self) -> int:
        """Number of committed records, at least, that our log lacks."""
        return max(self.committed_seen - self.log.end_offset, 0)

    # --- lost records ---------------------------------------------------------------------------------------

    def give_up_missing(self) -> int:
        """An unclean election made this replica the leader, so the records that it lacks do not count as
        committed any more. Returns how many they are, at least.
        """
        lost = self.lacks
        self.committed_seen = self.log.end_offset
        return lost

    def give_up_from(self, offset: int) -> int:
        """After an unclean election the leader's log ends at ``offset``, and later records do not count as
        committed any more. Returns how many of ours these are, at least.
        """
        lost = self.high_watermark - offset
        self.high_watermark = self.committed_seen = offset
        return lost

    def log_damaged_from(self, offset: int) -> None:
        """The log is about to drop everything from ``offset`` on. Those records stay committed on other
        replicas.
        """
        self.high_watermark = min(self.high_watermark, offset)

    def log_restarted(self, offset: int) -> None:
        """The log is empty and continues at ``offset``, the start of the leader's log: everything before is
        committed.
        """
        self.high_watermark = max(self.high_watermark, offset)

    # --- records from the leader ----------------------------------------------------------------------------

    def received(self, epoch: int, leader_high_watermark: int) -> Effects:
        """The leader's records are in our log. Adopt its high watermark as far as our log reaches."""
        if self.role is not Role.FOLLOWER or epoch != self.epoch:
            return []
        readable = self.readable_end_offset
        self.is_sure = True
        self.agreed = (epoch, self.log.end_offset)
        self.committed_seen = max(self.committed_seen, leader_high_watermark)
        self.high_watermark = max(self.high_watermark, min(leader_high_watermark, self.log.end_offset))
        return [Commit(self.high_watermark)] if self.high_watermark > readable else []

    def accepted(self) -> Effects:
        """The leader has confirmed that our log is a prefix of its own."""
        readable, self.is_sure = self.readable_end_offset, True
        return [Commit(self.high_watermark)] if self.high_watermark > readable else []

    def stand_in(self, acted_epoch: int) -> Effects:
        """There is no leader, and this replica serves readers. The last leader that could commit anything
        also held everything that we fetched from it in its epoch: two copies. Where two are enough for an
        acknowledgement, all of it is committed, even if the leader could not say so any more. This does not
        apply where acknowledgements require a sync, because the records may not be synced there.

        If that leader has not confirmed that our log is a prefix of its own, the end of our log may never
        have been acknowledged: then the high watermark stays where it is.
        """
        agreed_epoch, confirmed = self.agreed
        if self.role is not Role.FOLLOWER or self.limits.min_in_sync > 2 or self.limits.durable:
            return []
        if agreed_epoch != acted_epoch or confirmed > self.log.end_offset:
            return []
        if confirmed <= self.high_watermark:
            return []
        self.high_watermark = confirmed
        return [Commit(confirmed)]

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
