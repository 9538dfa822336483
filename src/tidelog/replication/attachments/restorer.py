"""A leader that may lack records copies back what the other replicas hold, before it leads.

If the metadata names a leader outside the in-sync set, that leader has lost data (a power failure, another
disk) or replaces another leader. It accepts no writes and serves no clients until it has asked the others
where their logs end:

======================== =====================================================================================
another replica's log    what happens
======================== =====================================================================================
is a prefix of ours      it follows as soon as we lead
continues ours           we follow it, in our own epoch, until we have what it has
diverges from ours       we stop and report the divergence: an operator decides which log is kept
======================== =====================================================================================

The last leader decides this itself, if it has kept everything that it held. Every acknowledged record is in
its log, so where another log differs from it, ours included, that log has records that were never
acknowledged. We copy the last leader's log.

A log without a record of the last leader's epoch that diverges from ours before the first such record is
ignored: the last leader held every acknowledged record when it wrote that one, and our log is its log up to
there. So the replica that was out of sync when all others lost power needs no operator.

Where the controllers choose among members (``last_member_decides``), we were the last replica that held
everything, and lost at most the unsynced end of our log. So what we have left is committed history, and a log
that diverges from it has records that were never committed, even if they have a higher epoch: a leader also
commits the records of earlier epochs that it finds in its log, and need not write one of its own. Such a log
is ignored. Of those that continue ours, the one whose last record has the highest epoch, and among those the
longest, is copied. There, replicas that do not respond are waited for only briefly: they may never come back.

The others respond only in the new epoch. From then on they take no records from another leader, so their
response stays true unless they lose data: a power failure can leave them with less. So the replica that we
copy from is asked again while we copy, and a divergence counts only if the response is a new one. A replica
that is silent for five seconds is not waited for any longer: another one may have the same records, and it
may never come back. How many responses are needed follows from how many copies an acknowledgement requires.
Records that were deleted on request while this replica was away are deleted here as well, before it leads:
the responses also tell where the logs begin.

When nothing is missing any more, we ask the controllers to add this replica to the in-sync set (once all is
synced, if acknowledgements require that). When they confirm, it leads.
"""

import logging
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from tidelog.errors import ErrorCode
from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.messages import Peers, TailAsk, TailGot
from tidelog.replication.replica import Role
from tidelog.replication.votes import Tail
from tidelog.services import Services, Timer
from tidelog.types import NO_BROKER, NO_EPOCH

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)

ASK_AGAIN_MS = 200
FORCED_WAIT_MS = 1000  # How long to wait for responses of replicas that may never come back.
SOURCE_WAIT_MS = 5000  # How long the replica that we copy from may be silent: it has records that we lack.
_NOTHING = Tail(NO_EPOCH, -1)  # stands for no log


class Mandate(NamedTuple):
    """The terms on which a replica is appointed leader."""

    epoch: int
    replicas: tuple[int, ...]
    partition_epoch: int
    last_leader: int  # the last leader that held everything; -1 if its disk was replaced
    sound: frozenset[int] = frozenset()  # replicas that still hold everything they acknowledged
    forced: bool = False  # An operator has decided that records that cannot be found are lost.
    # The smallest number of copies that was enough for an acknowledgement, if it is less than the topic
    # requires now; otherwise 0.
    copies: int = 0
    acted_epoch: int = NO_EPOCH  # epoch of the last leader that could acknowledge records


def has_heard_enough(mandate: Mandate, copies: int, heard: AbstractSet[int]) -> bool:
    """Whether every acknowledged record that still exists has been seen at one of the replicas in ``heard``.

    The leader held one of the ``copies``. Of the others, all but ``copies - 1`` may lack a record. Only
    replicas that have kept what they acknowledged are evidence. If there are too few of those, or if one copy
    was enough, all replicas must respond: what is found then is all there is. The last leader alone is enough
    if it has kept what it held: nothing was acknowledged since.
    """
    others = len(mandate.replicas) - 1
    if len(heard) >= others or mandate.last_leader in heard & mandate.sound:
        return True
    return copies > 1 and len(heard & mandate.sound) >= others - copies + 2


def needs_operator(mandate: Mandate, copies: int) -> bool:
    """Whether acknowledged records may be lost that only the leader had to hold, though no setting of the
    topic accepts that: with one copy a power failure may lose the newest records, but a replaced disk is
    another case.
    """
    return copies <= 1 and mandate.last_leader == NO_BROKER


class NoRestorer(Attachment):
    """Nothing is copied back."""

    __slots__ = ()

    slot: ClassVar[str] = "restorer"
    gathers: ClassVar[bool] = False  # whether this replica is about to lead and may lack records

    def renewed(self, mandate: Mandate) -> bool:
        """The metadata of the partition changed. Returns whether a running restoration covers that."""
        return False

    def synced(self) -> None:
        """More of the log is durable than before."""

    def got(self, got: TailGot) -> None:
        """Another replica has reported its log end offset."""

    def diverged(self, diverging: tuple[int, int]) -> bool:
        """The log that we follow diverges from ours. Returns True if nothing is truncated because of that."""
        return False


def deleted_before(mandate: Mandate, starts: Mapping[int, int]) -> int:
    """Exclusive: everything before it was deleted permanently, according to the log starts of the replicas
    that have responded.

    The last leader's log start counts alone: all its followers adopt it. If it need not be heard, every
    permanent deletion is known to this replica or to two of the others, because as many replicas have deleted
    as an acknowledgement needs copies. A log start that only one of them has may come from retention by a
    wrong clock.
    """
    sound = {replica: start for replica, start in starts.items() if replica in mandate.sound}
    if mandate.last_leader in sound:
        return sound[mandate.last_leader]
    return sorted(sound.values())[-2] if len(sound) > 1 else 0


class Restoring(NoRestorer):
    gathers = True

    def __init__(self, driver: "ReplicaDriver", mandate: Mandate, services: Services, peers: Peers) -> None:
        self._driver = driver
        self._services = services
        self._peers = peers
        self.mandate = mandate
        self._tails: dict[int, Tail] = {}  # last epoch and log end offset of the other replicas
        self._starts: dict[int, int] = {}  # log start offsets, of the same and of some that are asked again
        # Replicas whose diverging log is not kept: by an operator's decision, or because ours decides.
        self._discarded: set[int] = set()
        self._doubted: dict[int, Tail] = {}  # replicas whose log diverged from ours: they are asked again
        self._copying_until: int | None = None  # log end offset of the replica that we follow
        self._source_ms = 0  # when the replica that we follow was last heard
        self._timer: Timer | None = None
        self._forced_ms = services.uptime_ms() + FORCED_WAIT_MS
        self.done = False
        # Why it cannot continue; empty while it can.
        self.problem = ""

    def start(self) -> None:
        self._ask()

    def stopped(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def renewed(self, mandate: Mandate) -> bool:
        """New metadata in the same epoch. A replica that has lost data since then may have sent its response
        after the loss and before we knew of it.
        """
        if mandate.epoch != self.mandate.epoch:
            return False
        forgot = self.mandate.sound - mandate.sound
        self.mandate = mandate
        if forgot:
            self.done = False
            for replica in forgot:
                self._tails.pop(replica, None)
        self._look()
        return True

    # --- asking ---------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Ask all replicas that have not responded yet, repeatedly; and those whose response may be outdated:
        the one we copy from, and all of them while we cannot continue.
        """
        if self._driver.closed or self._driver.restorer is not self:
            return
        self._give_up_source()
        me, source = self._driver.replica.me, self._driver.replica.leader
        # Responses may arrive in any order, and late.
        skipped = self._services.perturb("tail ask skipped")
        for replica in () if skipped else self.mandate.replicas:
            unknown = replica not in self._tails or replica == source or bool(self.problem)
            if replica != me and unknown and not self.done:
                self._peers.send(replica, TailAsk(me, self._driver.key, self.mandate.epoch))
        self._timer = self._services.later(ASK_AGAIN_MS, self._ask)
        self._look()

    def got(self, got: TailGot) -> None:
        if got.epoch != self.mandate.epoch or got.error is not ErrorCode.NONE or self.done:
            return
        if got.sender in self.mandate.replicas:
            tail = Tail(got.last_epoch, got.end_offset)
            known = self._tails.get(got.sender)
            if known != tail and (known is not None or self._has_the_last_word(got.sender)):
                # It has lost records since, and the problem was found with its earlier log; or it decides
                # between logs that diverge.
                self.problem = ""
            self._tails[got.sender] = tail
            self._starts[got.sender] = got.start_offset
            if self._copying_until is not None and got.sender == self._driver.replica.leader:
                self._source_ms = self._services.uptime_ms()
                self._copying_until = tail.end_offset
                self.taken()
            self._look()

    def _give_up_source(self) -> None:
        """The replica that we copy from may never come back. Others may have the same records. If that is
        certain, or does not matter, we continue without it.
        """
        source = self._driver.replica.leader
        if self._copying_until is None or self._services.uptime_ms() - self._source_ms < SOURCE_WAIT_MS:
            return
        logger.warning("%s: broker %s does not respond; no longer copying from it", self._driver.key, source)
        self._doubt(source)

    def follower_restarted(self, broker: int, now_ms: int) -> None:
        self._doubt(broker)

    def _doubt(self, broker: int) -> None:
        """It may have restarted with fewer records than it reported: it is asked again, and not waited
        for.
        """
        self._tails.pop(broker, None)
        if self._copying_until is not None and self._driver.replica.leader == broker:
            self._copying_until = None
            self._follow_none()

    def _follow_none(self) -> None:
        mandate = self.mandate
        self._driver.follow(mandate.epoch, NO_BROKER, mandate.replicas, mandate.partition_epoch)

    # --- deciding -------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self.done:
            self._propose()
            return
        if self._copying_until is not None or self.problem or not self._has_heard_enough():
            return
        others = [replica for replica in self._tails if replica not in self._discarded]
        ahead = [replica for replica in others if self._is_ahead(self._tails[replica])]
        if not all(self._agrees(replica) for replica in others if replica not in ahead):
            return
        if ahead:
            self._copy_from(max(ahead, key=self._tails.__getitem__))
        else:
            self._delete({replica: self._starts[replica] for replica in others})
            self.done = True
            self._propose()

    def _delete(self, starts: Mapping[int, int]) -> None:
        """``starts``: of logs that are prefixes of ours."""
        offset = min(deleted_before(self.mandate, starts), self._driver.log.end_offset)
        if offset > self._driver.log.start_offset:
            logger.info("%s: records before offset %s were deleted", self._driver.key, offset)
            self._driver.begin_with_leader_at(offset)

    def _has_heard_enough(self) -> bool:
        others = len(self.mandate.replicas) - 1
        if self.mandate.forced or self._own_log_decides:
            return len(self._tails) == others or self._services.uptime_ms() >= self._forced_ms
        copies = self._copies
        if needs_operator(self.mandate, copies):
            self._give_up(
                "the last primary's disk was replaced, and the newest acknowledged records may be lost"
            )
            return False
        return has_heard_enough(self.mandate, copies, self._tails.keys())

    @property
    def _own_log_decides(self) -> bool:
        return self._driver.replica.policy.last_member_decides

    @property
    def _copies(self) -> int:
        """The smallest number of copies that was enough for an acknowledgement of any record that may still
        exist.
        """
        replica = self._driver.replica
        copies = replica.policy.fewest_copies(replica.limits)
        return min(copies, self.mandate.copies or copies)

    def _is_ahead(self, tail: Tail) -> bool:
        """Whether there is something to copy, or a divergence to find. A log whose records have all been
        deleted by retention has nothing to compare, only a log end: from there on offsets are free.
        """
        own = _tail(self._driver)
        if NO_EPOCH in (own.last_epoch, tail.last_epoch):
            return tail.end_offset > own.end_offset
        return tail > own

    def _agrees(self, replica: int) -> bool:
        """Whether a shorter log is a prefix of ours, or does not matter."""
        log, tail = self._driver.log, self._tails[replica]
        if tail.end_offset <= log.start_offset or tail.last_epoch == NO_EPOCH:
            return True
        epoch, end_offset = log.epochs.end_offset_for(tail.last_epoch, log.end_offset)
        if epoch == tail.last_epoch and end_offset >= tail.end_offset:
            return True
        return self._is_discarded(replica, (epoch, end_offset))

    def _propose(self) -> None:
        driver, mandate = self._driver, self.mandate
        if driver.replica.durable_end_offset < driver.log.end_offset:
            # A member counts as complete after a power failure, so this replica is proposed only when what
            # was copied is synced.
            driver.listener.syncer.want(driver)
            return
        if not driver.log.keep_start():
            return  # Records that were deleted would return if this process was killed. This is repeated.
        replica = driver.replica
        if replica.proposals.pending is None or replica.partition_epoch != mandate.partition_epoch:
            self._follow_none()
            driver.run(replica.propose_itself())

    # --- copying --------------------------------------------------------------------------------------------

    def _copy_from(self, replica: int) -> None:
        mandate, tail = self.mandate, self._tails[replica]
        logger.info(
            "%s: copying records back from broker %s, whose log ends at %s; ours ends at %s",
            self._driver.key, replica, tail.end_offset, self._driver.log.end_offset,
        )  # fmt: skip
        self._copying_until, self._source_ms = tail.end_offset, self._services.uptime_ms()
        self._driver.follow(mandate.epoch, replica, mandate.replicas, mandate.partition_epoch)

    def taken(self) -> None:
        """More of the other replica's log was copied."""
        if self._copying_until is not None and self._driver.log.end_offset >= self._copying_until:
            self._copying_until = None
            self._look()

    def skipped(self) -> None:
        self.taken()

    def synced(self) -> None:
        if self.done:
            self._propose()

    def diverged(self, diverging: tuple[int, int]) -> bool:
        """The log that we follow diverges from ours. Returns True if nothing is truncated because of that."""
        replica = self._driver.replica
        source = replica.leader
        # If it lacks a record that we know to be committed, its disk has lost it without anyone's knowledge.
        decides = self._has_the_last_word(source) and not replica.cuts_committed(diverging)
        if decides and self._doubted.get(source, _NOTHING) == self._tails.get(source):
            return False  # It has reported the divergence twice, and has the right log.
        self._copying_until = None
        self._follow_none()
        tail = self._tails.get(source)
        if tail is None:
            return True
        if self._doubted.get(source) != tail:
            # It may have lost the records that it reported, and be a prefix of our log: then there is no
            # divergence.
            self._doubted[source] = tail
            del self._tails[source]
        elif self._is_discarded(source, diverging):
            self._look()
        return True

    def _has_the_last_word(self, replica: int) -> bool:
        """Whether it was the last leader and has kept everything that it held."""
        mandate = self.mandate
        return not mandate.forced and replica == mandate.last_leader and replica in mandate.sound

    def _is_discarded(self, replica: int, parting: tuple[int, int]) -> bool:
        """The logs diverge. Ours is the right one if an operator has decided so, if we are the last member,
        or if the other one is superseded; if the last leader has responded, its log is; otherwise we stop.
        """
        last_leader = self.mandate.last_leader
        is_decided = last_leader in self._tails and self._has_the_last_word(last_leader)
        epoch, end_offset = parting
        own_end, their_end = self._driver.log.end_offset, self._tails[replica].end_offset
        offset = min(end_offset, own_end, their_end)
        is_ours = self.mandate.forced or self._own_log_decides or self._is_superseded(replica, offset)
        if is_ours or (is_decided and replica != last_leader):
            self._discarded.add(replica)
            return True
        self._give_up(
            f"its log and that of broker {replica} diverge at offset {offset} "
            f"(epoch {epoch}): its own log ends at {own_end}, the other at {their_end}"
        )
        return False

    def _is_superseded(self, replica: int, offset: int) -> bool:
        """Whether the last leader had another history at ``offset``, where the logs diverge: it held every
        acknowledged record when it wrote its first one. We still have that one, and the other replica has
        nothing that was written since.
        """
        acted_epoch, log = self.mandate.acted_epoch, self._driver.log
        if acted_epoch == NO_EPOCH or self._tails[replica].last_epoch >= acted_epoch:
            return False
        first = log.epochs.end_offset_for(acted_epoch - 1, log.end_offset)[1]
        return offset <= first and log.epochs.epoch_at(first) == acted_epoch

    def _give_up(self, problem: str) -> None:
        if self.problem != problem:
            self.problem = problem
            logger.error(
                "%s: broker %s cannot lead: %s. No writes are accepted until an operator decides: "
                "tidelog topic promote",
                self._driver.key, self._driver.replica.me, problem,
            )  # fmt: skip


def _tail(driver: "ReplicaDriver") -> Tail:
    """Last epoch and log end offset of the records that exist: an epoch without records left is nothing to
    copy.
    """
    log = driver.log
    return driver.tail if log.end_offset > log.start_offset else Tail(NO_EPOCH, log.end_offset)


def tail_of(driver: "ReplicaDriver | None", ask: TailAsk, me: int) -> TailGot:
    """A replica's response to the leader that asks for its log end: only in that leader's epoch, and not if
    its own log has failed or is damaged.
    """
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    tail, start = Tail(NO_EPOCH, 0), 0
    if driver is not None and not driver.closed:
        replica = driver.replica
        error = replica.check_epoch(ask.epoch)
        if error is ErrorCode.NONE and (replica.role is not Role.FOLLOWER or replica.leader != ask.sender):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is ErrorCode.NONE and (driver.log.failure is not None or driver.damage.offset is not None):
            error = ErrorCode.KAFKA_STORAGE_ERROR
        tail = _tail(driver)
        start = driver.log.start_offset
    return TailGot(me, ask.key, error, ask.epoch, tail.last_epoch, tail.end_offset, start)
