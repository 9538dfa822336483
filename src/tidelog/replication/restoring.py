"""A leader that may lack records copies back what the other replicas hold, before it leads.

Whom the metadata names as leader outside the in-sync set has forgotten something (a power failure, another
disk) or was put in another's place. It takes no writes and serves nobody until it has asked the others where
their logs end:

======================== =====================================================================================
another replica's log    what happens
======================== =====================================================================================
is the beginning of ours it follows as soon as we lead
goes on where ours ends  we follow it, in our own epoch, until we have what it has
is another history       we stop and say where they part: an operator decides whose is kept
======================== =====================================================================================

Where the controllers choose among members (``newest_log_wins``), every leader began with all that was
committed before it. So the log whose last record has the highest epoch, and of those the longest, lacks
nothing committed that any other one has: it is taken over, also where ours parts from it. Those that do not
answer are waited for shortly: there the leader was the last one that was whole, and others may be gone for
good.

Others answer only in the new epoch: from then on they take nothing from anybody else, so what they say stays
true unless they lose it: one that loses power meanwhile holds less than it said. So whom we copy from is
asked again while we copy, and histories part only when the answer is a new one. One that is silent for five
seconds is left: another one may have the same, and it may be gone for good. How many must be heard
follows from how many copies an ok stands for. When nothing is missing any more, the controllers are asked to
take the replica into the in-sync set (once all is synced, if acknowledgements promise that); with their word
it leads.
"""

import logging
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.replication.attachments.restorer import NoRestorer
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import Peers, TailAsk, TailGot
from tidelog.replication.replica import Role
from tidelog.replication.votes import Tail
from tidelog.services import Services, Timer
from tidelog.types import NO_BROKER, NO_EPOCH

logger = logging.getLogger(__name__)

ASK_AGAIN_MS = 200
FORCED_WAIT_MS = 1000  # How long others may take to answer where they may be gone for good.
SOURCE_WAIT_MS = 5000  # How long whom we copy from may be silent: it has records that we lack.
_NOTHING = Tail(NO_EPOCH, -1)  # of no log


class Mandate(NamedTuple):
    """Under which circumstances a replica leads."""

    epoch: int
    replicas: tuple[int, ...]
    partition_epoch: int
    last_leader: int  # the last one that held everything; -1 when its disk was replaced
    sound: frozenset[int] = frozenset()  # replicas that have kept whatever they acknowledged
    forced: bool = False  # An operator has decided that what cannot be had is given up.
    # The fewest copies that were enough for an ok, where that is less than the topic asks for now; 0: it is
    # not.
    copies: int = 0


def has_heard_enough(mandate: Mandate, copies: int, heard: AbstractSet[int]) -> bool:
    """Whether every acknowledged record that is left anywhere has been seen at one of those ``heard``.

    The leader was one of the ``copies``; of the others, all but ``copies - 1`` may lack a record. Only who
    has kept what it acknowledged can tell; where there are too few of those, and where one copy was enough,
    everybody must be heard: what is found then is all there is. The last leader, if it has kept what it held,
    is enough by itself: nobody has acknowledged anything since.
    """
    others = len(mandate.replicas) - 1
    if len(heard) >= others or mandate.last_leader in heard & mandate.sound:
        return True
    return copies > 1 and len(heard & mandate.sound) >= others - copies + 2


def needs_operator(mandate: Mandate, copies: int) -> bool:
    """Whether records may be gone that nobody but the leader need have had, though no setting of the topic
    accepts that: with one copy, a power failure may cost the newest records, but a disk is another matter.
    """
    return copies <= 1 and mandate.last_leader == NO_BROKER


class Restoring(NoRestorer):
    gathers = True

    def __init__(self, driver: ReplicaDriver, mandate: Mandate, services: Services, peers: Peers) -> None:
        self._driver = driver
        self._services = services
        self._peers = peers
        self.mandate = mandate
        self._tails: dict[int, Tail] = {}  # of the other replicas
        self._discarded: set[int] = set()  # whose history an operator has decided against
        self._doubted: dict[int, Tail] = {}  # with which our log was found to differ: asked for again
        self._copying_until: int | None = None  # where the log ends that we follow
        self._source_ms = 0  # when the one we follow was last heard of
        self._timer: Timer | None = None
        self._forced_ms = services.uptime_ms() + FORCED_WAIT_MS
        self.done = False
        # Why it does not go on; empty while it may.
        self.problem = ""

    def start(self) -> None:
        self._ask()

    def stopped(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def renewed(self, mandate: Mandate) -> bool:
        """The same epoch, and other news of the partition. Who has forgotten something since then may have
        told us of it after it had, and before we knew.
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
        """Everybody who has not answered yet, again and again; and those whose answer may not be true any
        more: whom we copy from, and all of them while we do not go on.
        """
        if self._driver.closed or self._driver.restorer is not self:
            return
        self._give_up_source()
        me, source = self._driver.replica.me, self._driver.replica.leader
        # The answers may come in any order, and some late.
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
            if self._tails.get(got.sender) not in (None, tail):
                self.problem = ""  # It has lost something since: what we know of it is another log's.
            self._tails[got.sender] = tail
            if self._copying_until is not None and got.sender == self._driver.replica.leader:
                self._source_ms = self._services.uptime_ms()
                self._copying_until = tail.end_offset
                self.taken()
            self._look()

    def _give_up_source(self) -> None:
        """Whom we copy from may never come back. Others may have the same, and where that is for sure, or
        does not matter, we go on without it.
        """
        source = self._driver.replica.leader
        if self._copying_until is None or self._services.uptime_ms() - self._source_ms < SOURCE_WAIT_MS:
            return
        logger.warning("%s: broker %s is silent; it is not copied from any more", self._driver.key, source)
        self._doubt(source)

    def follower_restarted(self, broker: int, now_ms: int) -> None:
        self._doubt(broker)

    def _doubt(self, broker: int) -> None:
        """It may have come back with less than it said: it is asked again, and not waited for."""
        self._tails.pop(broker, None)
        if self._copying_until is not None and self._driver.replica.leader == broker:
            self._copying_until = None
            self._follow_nobody()

    def _follow_nobody(self) -> None:
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
            self.done = True
            self._propose()

    def _has_heard_enough(self) -> bool:
        others = len(self.mandate.replicas) - 1
        if self.mandate.forced or self._newest_wins:
            return len(self._tails) == others or self._services.uptime_ms() >= self._forced_ms
        copies = self._copies
        if needs_operator(self.mandate, copies):
            self._give_up("its disk was replaced, and only it need have had the newest acknowledged records")
            return False
        return has_heard_enough(self.mandate, copies, self._tails.keys())

    @property
    def _newest_wins(self) -> bool:
        return self._driver.replica.policy.newest_log_wins

    @property
    def _copies(self) -> int:
        """How few were enough for an ok: for every record that may be left."""
        limits = self._driver.replica.limits
        copies = 1 if limits.degrade_after_ms >= 0 else limits.min_in_sync
        return min(copies, self.mandate.copies or copies)

    def _is_ahead(self, tail: Tail) -> bool:
        """Whether there is something to copy, or another history to be found. A log whose records have all
        had their time has nothing to compare, only an end: from there on offsets are free.
        """
        own = _tail(self._driver)
        if NO_EPOCH in (own.last_epoch, tail.last_epoch):
            return tail.end_offset > own.end_offset
        return tail > own

    def _agrees(self, replica: int) -> bool:
        """Whether a shorter log is the beginning of ours; or does not matter."""
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
            # A member counts as complete after a power failure. Proposed when what was copied is synced.
            driver.listener.syncer.want(driver)
            return
        if driver.replica.proposed is None or driver.replica.partition_epoch != mandate.partition_epoch:
            self._follow_nobody()
            driver.run(driver.replica.propose_itself())

    # --- copying --------------------------------------------------------------------------------------------

    def _copy_from(self, replica: int) -> None:
        mandate, tail = self.mandate, self._tails[replica]
        logger.info(
            "%s: copies back from broker %s, which has everything up to %s; ours ends at %s",
            self._driver.key, replica, tail.end_offset, self._driver.log.end_offset,
        )  # fmt: skip
        self._copying_until, self._source_ms = tail.end_offset, self._services.uptime_ms()
        self._driver.follow(mandate.epoch, replica, mandate.replicas, mandate.partition_epoch)

    def taken(self) -> None:
        """More of the other's log is ours."""
        if self._copying_until is not None and self._driver.log.end_offset >= self._copying_until:
            self._copying_until = None
            self._look()

    def skipped(self) -> None:
        self.taken()

    def synced(self) -> None:
        if self.done:
            self._propose()

    def diverged(self, diverging: tuple[int, int]) -> bool:
        """The log we follow does not go on where ours ends. Whether nothing is dropped for that."""
        source = self._driver.replica.leader
        if self._newest_wins and self._doubted.get(source, _NOTHING) == self._tails.get(source):
            return False  # It has said so twice, and has the newer log.
        self._copying_until = None
        self._follow_nobody()
        tail = self._tails.get(source)
        if tail is None:
            return True
        if self._doubted.get(source) != tail:
            # It may have lost what it said it had, and be the beginning of our log: then nothing parts.
            self._doubted[source] = tail
            del self._tails[source]
        elif self._is_discarded(source, diverging):
            self._look()
        return True

    def _is_discarded(self, replica: int, parting: tuple[int, int]) -> bool:
        """Two histories. An operator's word makes ours the right one; without it we stop."""
        if self.mandate.forced or self._newest_wins:
            self._discarded.add(replica)
            return True
        epoch, end_offset = parting
        own_end, their_end = self._driver.log.end_offset, self._tails[replica].end_offset
        self._give_up(
            f"its log and that of broker {replica} part at offset {min(end_offset, own_end, their_end)} "
            f"(epoch {epoch}): here they go on to {own_end}, there to {their_end}"
        )
        return False

    def _give_up(self, problem: str) -> None:
        if self.problem != problem:
            self.problem = problem
            logger.error(
                "%s: broker %s does not lead: %s. Nothing is written until an operator decides: "
                "tidelog topic promote",
                self._driver.key, self._driver.replica.me, problem,
            )  # fmt: skip


def _tail(driver: ReplicaDriver) -> Tail:
    """Of the records that are there: an epoch that has left none is nothing that could be copied."""
    log = driver.log
    return driver.tail if log.end_offset > log.start_offset else Tail(NO_EPOCH, log.end_offset)


def tail_of(driver: ReplicaDriver | None, ask: TailAsk, me: int) -> TailGot:
    """What a replica answers whoever is to lead it: only in that epoch, and only if it has not forgotten what
    it had itself.
    """
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    tail = Tail(NO_EPOCH, 0)
    if driver is not None and not driver.closed:
        replica = driver.replica
        error = replica.check_epoch(ask.epoch)
        if error is ErrorCode.NONE and (replica.role is not Role.FOLLOWER or replica.leader != ask.sender):
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if error is ErrorCode.NONE and (driver.log.failure is not None or driver.damage.offset is not None):
            error = ErrorCode.KAFKA_STORAGE_ERROR
        tail = _tail(driver)
    return TailGot(me, ask.key, error, ask.epoch, tail.last_epoch, tail.end_offset)
