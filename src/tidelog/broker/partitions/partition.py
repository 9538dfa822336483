"""The client side of one partition: checks produced batches, assigns offsets, and wakes waiting fetches.

The replica decides what is committed and who leads; the log knows what is on disk. This class has no state of
its own except the topic's settings and the waiting fetches. It never blocks and never reads the clock.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from tidelog.broker.partitions.fetch_waiters import FetchWaiter, FetchWaiters
from tidelog.broker.partitions.validation import (
    AppendRules,
    ValidatedBatch,
    check_batch,
    is_costly,
    recompressed,
)
from tidelog.config import BrokerConfig, TopicConfig
from tidelog.controller.image import PartitionImage
from tidelog.errors import ErrorCode, OffsetOutOfRange, TidelogError
from tidelog.log.producers import Refused
from tidelog.protocol import batch as batches
from tidelog.protocol.markers import Marker, encode_marker
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.limits import Limits
from tidelog.replication.replica import NO_LIMIT, NOTHING_SAFE, Role
from tidelog.transactions.transaction import EPOCH_BUMP_VERSION
from tidelog.types import NO_EPOCH, TopicPartition

SYNC_EVERY_MESSAGE = 1
ACKS_ALL = -1
EVERYTHING = 1 << 30  # as a number of bytes: wakes every waiting fetch


class Appended(NamedTuple):
    base_offset: int
    end_offset: int  # exclusive
    log_append_time_ms: int  # -1 unless the broker's clock stamped the batch


# Same as calling the class, but saves a call on the hot path of Produce.
_new_appended: Callable[[tuple[int, int, int]], Appended] = partial(tuple.__new__, Appended)


def limits_of(config: TopicConfig, replicas: int, lag_max_ms: int) -> Limits:
    """The settings of a topic that its replicas act on."""
    return Limits(
        # A topic with fewer replicas than the minimum could never be written. The default assumes more.
        min_in_sync=min(config.min_insync_replicas, replicas),
        lag_max_ms=lag_max_ms,
        # Whether acknowledged means synced. A larger flush.messages only limits what a power failure can
        # lose.
        durable=config.flush_messages == SYNC_EVERY_MESSAGE,
        degrade_after_ms=config.replication_degrade_after_ms,
    )


class Marked(NamedTuple):
    """The result of appending a marker."""

    end_offset: int  # must be acknowledged before the marker counts as written
    is_new: bool  # False: the marker was already in the log and was not written again


class MustConfirm(Exception):
    """A response is right only if no other broker led when the request arrived: see
    :meth:`Partition.when_followed`.
    """


def _never() -> bool:
    return False


def _always() -> bool:
    return True


class Followed(NamedTuple):
    """What the metadata says of one partition, as far as its replica has acted on it."""

    partition: PartitionImage
    overrides: Mapping[str, str]  # of the topic
    settings: BrokerConfig

    def has_other_settings(self, newer: "Followed") -> bool:
        return (
            self.overrides != newer.overrides
            or self.settings is not newer.settings
            or self.partition.mode != newer.partition.mode
        )


class Partition:
    __slots__ = (
        "_alone",
        "_committed_bytes",
        "_fetch_waiters",
        "_is_certain",
        "_may_be_decided",
        "bytes_in",
        "bytes_out",
        "config",
        "driver",
        "followed",
        "log",
        "name",
        "on_role",
        "records_in",
        "replica",
        "rules",
    )  # fmt: skip

    def __init__(
        self,
        name: TopicPartition,
        driver: ReplicaDriver,
        config: TopicConfig,
        alone: Callable[[], bool],
        on_role: Callable[["Partition"], None],
        may_be_decided: Callable[[], bool] = _never,
        is_certain: Callable[[], bool] = _always,
    ) -> None:
        """``alone``: the controllers may have fenced this broker. ``may_be_decided``: there may be a majority
        of controllers that does so. ``is_certain``: none has done so before the session was over.
        """
        self.name = name
        self.driver = driver
        self.log = driver.log
        self.replica = driver.replica
        self._alone = alone
        self._may_be_decided = may_be_decided
        self._is_certain = is_certain
        self.replica.ask_before_commit(self._safe_end_offset)
        self.on_role = on_role
        self._fetch_waiters = FetchWaiters(driver.services)
        self._committed_bytes = 0  # total bytes ever written, when all of them were last committed
        self.config = config
        self.rules = AppendRules.of(config)
        self.followed: Followed | None = None  # the newest metadata that it has acted on
        # From producers and to consumers, since this process opened the partition; not what followers copy.
        self.bytes_in = self.records_in = self.bytes_out = 0
        driver.observer = self

    def reconfigure(self, config: TopicConfig, limits: Limits) -> None:
        self.config = config
        self.log.config = config
        self.rules = AppendRules.of(config)
        self.driver.set_limits(limits)

    @property
    def stands_in(self) -> bool:
        """Whether this replica serves consumers while there is no leader. A leader that may have a successor
        is none for its clients, but what it knows to be committed stays committed.
        """
        if self.replica.role is Role.LEADER and not self._is_doubted():
            return False
        return self.driver.stand_in.serves

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    @property
    def readable_end_offset(self) -> int:
        """Exclusive end of what consumers may read. They get it as the high watermark."""
        return self.replica.readable_end_offset

    @property
    def last_stable_offset(self) -> int:
        """Exclusive end of what consumers with read_committed may read."""
        return self.log.last_stable_offset(self.replica.readable_end_offset)

    @property
    def knows_committed(self) -> bool:
        """Whether everything from before this leader's epoch is known to be committed. True as well if too
        few replicas are in sync, because then it may stay uncommitted for a long time.
        """
        replica = self.replica
        below_minimum = len(replica.in_sync) < replica.min_in_sync
        return below_minimum or replica.high_watermark >= replica.epoch_start_offset

    @property
    def leader_epoch(self) -> int:
        return self.replica.epoch

    @property
    def leads(self) -> bool:
        """Whether this broker may act as leader: it is the leader, and cannot have a successor that it does
        not know.
        """
        return self.replica.role is Role.LEADER and not self._is_doubted()

    @property
    def has_doubts(self) -> bool:
        """Whether this broker is the leader, but may have a successor that it does not know."""
        return self.replica.role is Role.LEADER and self._is_doubted()

    def _is_doubted(self) -> bool:
        return self._alone() and self._may_be_succeeded()

    def _may_be_succeeded(self) -> bool:
        """A broker without contact to the controllers for a session may have been fenced. But a successor
        stops fetching from this broker: while all possible successors still fetch, there is none. Once the
        controllers have fenced this broker, an operator can make any replica the leader (``by_hand``).
        """
        return not self.driver.successors.all_follow(by_hand=self._may_be_decided())

    def _safe_end_offset(self) -> int:
        """Exclusive: what this broker may commit as leader. While it may have been fenced, a follower may
        have been appointed in its place and not know that yet. One that is no member of the in-sync set may
        lack records. So each possible successor must hold what is committed, and not only follow.
        """
        if not self._alone():
            return NO_LIMIT
        by_hand, successors = self._may_be_decided(), self.driver.successors
        if not successors.all_follow(by_hand=by_hand):
            return NOTHING_SAFE
        return successors.held_by_all(by_hand=by_hand)

    @property
    def leads_for_certain(self) -> bool:
        """Whether it is certain, without asking, that no other broker leads this partition now. A broker
        with a session may have been fenced if its connections closed. Then another member may lead, without
        which nothing is committed here; but it may have committed more. So may one that the controllers have
        appointed after the end of a sealed log, and one that the voters have elected while this process was
        frozen.
        """
        if self.driver.voter.may_be_replaced:
            return False
        doubted = self._alone() or not self._is_certain()
        return not (doubted and (self._may_have_successors() or self._is_sealed))

    @property
    def _is_sealed(self) -> bool:
        return self.replica.sealed_end_offset is not None

    def _may_have_successors(self) -> bool:
        """Those that only an operator names need controllers that can decide that."""
        successors = self.driver.successors
        if not successors.may_be or successors.are_appointed:
            return successors.may_be
        return not self._alone() or self._may_be_decided()

    def when_certain(self, then: Callable[[bool], None]) -> None:
        """Call ``then`` with whether no other broker led when this was called. If so, this broker knows
        everything that was committed until then.
        """
        if not self.leads:
            then(False)
        elif self.leads_for_certain:
            then(True)
        elif self._is_sealed or not self.driver.successors.may_be:
            # After the end of a sealed log no follower can tell, and voters that were silent for a while may
            # have another leader: see ``leads_for_certain``.
            then(False)
        else:
            by_hand = self._alone() and self._may_be_decided()
            self.driver.successors.when_all_follow(then, by_hand=by_hand)

    # --- writing --------------------------------------------------------------------------------------------

    def must_open(self, records: memoryview) -> bool:
        """Whether a batch must be checked in a thread first, by the current rules."""
        return self.rules.opens and is_costly(records, self.rules)

    def append(
        self,
        records: memoryview,
        now_ms: int,
        produce_version: int,
        acks: int = ACKS_ALL,
        checked: ValidatedBatch | TidelogError | None = None,
        refused: Refused | None = None,
        *,
        coordinators: bool = False,
        in_transaction: bool = False,
    ) -> Appended:
        """Check one batch, assign its offsets and write it. If this raises, nothing was written.

        A batch that is already in the log is not written again; its offset is returned. A transactional batch
        is accepted only after the transaction coordinator was asked (``in_transaction``), because otherwise
        the transaction might never be committed or aborted. ``checked``: the result for a batch that was
        already checked in a thread. ``refused``: batches of the same producer that were refused a moment ago.
        ``coordinators``: the batch is a coordinator's own. Raises MustOpen if the batch must be checked in a
        thread first.
        """
        log = self.log
        self._check_leads(acks)
        rules = self.rules
        if checked is None:
            header = check_batch(records, rules, now_ms, produce_version)
        elif isinstance(checked, TidelogError):
            raise checked
        elif checked.rules == rules:
            header, records = checked.header, checked.records
        else:
            # The settings have changed meanwhile. By the current ones the check does not take long.
            header = check_batch(records, rules, now_ms, produce_version)
        if header.producer_id >= 0:
            if coordinators:
                log.producers.check_coordinators(header)
            else:
                original = log.producers.check(header, now_ms, refused)
                if original is not None:
                    return Appended(original.base_offset, original.last_offset + 1, original.append_time_ms)
            if header.attributes & batches.TRANSACTIONAL_MASK and not in_transaction:
                raise TidelogError(
                    "records of a transaction need its transactional id",
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                )
        if rules.codec >= 0 and header.attributes & batches.CODEC_MASK != rules.codec:
            records = recompressed(records, header, rules)
            header = batches.parse_header(records)
        base_offset = log.end_offset
        batches.assign_whole(records, base_offset, header.length, self.replica.epoch)
        if rules.stamp_append_time:
            batches.set_append_time(records, 0, len(records), now_ms)
            max_timestamp = append_time = now_ms
        else:
            max_timestamp, append_time = header.max_timestamp, -1
        self.driver.append(records, base_offset + header.last_offset_delta, max_timestamp, now_ms)
        end_offset = log.end_offset
        self.bytes_in += len(records)
        self.records_in += end_offset - base_offset
        return _new_appended((base_offset, end_offset, append_time))

    def _check_leads(self, acks: int) -> None:
        replica = self.replica
        if replica.role is not Role.LEADER or (self._alone() and self._may_be_succeeded()):
            raise TidelogError("this broker does not lead the partition", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        refusal = replica.before_append(acks)
        if refusal:
            raise TidelogError(_reason(refusal, replica.min_in_sync), refusal)

    def append_marker(
        self, producer_id: int, epoch: int, marker: Marker, now_ms: int, client_version: int
    ) -> Marked:
        """Write a transaction marker. Raises TidelogError if it is refused."""
        self._check_leads(ACKS_ALL)
        producers = self.log.producers
        producers.check_marker(producer_id, epoch, marker.coordinator_epoch)
        producer = producers.get(producer_id)
        if producer is not None and producer.epoch == epoch and client_version >= EPOCH_BUMP_VERSION:
            # The marker raises the epoch, so it is already in the log. Written again, it would end the next
            # transaction, which may have begun.
            return Marked(self.log.end_offset, is_new=False)
        if producers.is_late(producer_id, epoch, marker):
            return Marked(self.log.end_offset, is_new=False)  # The same for clients with a constant epoch.
        batch = memoryview(
            encode_marker(marker, producer_id, epoch, offset=self.log.end_offset, now_ms=now_ms)
        )
        batches.assign(batch, 0, self.log.end_offset, self.replica.epoch)
        self.driver.append(batch, self.log.end_offset, now_ms, now_ms)
        return Marked(self.log.end_offset, is_new=True)

    def when_acknowledged(
        self, end_offset: int, acks: int, timeout_ms: int, done: Callable[[ErrorCode], None]
    ) -> None:
        """Call ``done`` once everything before ``end_offset`` has the copies that ``acks`` requires, or with
        an error.
        """
        self.driver.wait(end_offset, acks, timeout_ms, done)

    def delete_records(self, before: int | None) -> int:
        """Delete everything before an offset; None means everything committed. Returns the offset (exclusive)
        up to which the log must be committed before the deletion is final.
        """
        if not self.leads:
            raise TidelogError("this broker does not lead the partition", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.config.compacts and not self.config.deletes:
            raise TidelogError(
                "records of a compacted topic can only be deleted where cleanup.policy contains delete",
                ErrorCode.POLICY_VIOLATION,
            )
        offset = self.high_watermark if before is None else before
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"offset {offset} is not between 0 and the high watermark {self.high_watermark}"
            )
        return self.driver.deletions.delete_before(offset)

    @property
    def low_watermark(self) -> int:
        """Records before it are deleted permanently, whichever replica leads next."""
        return self.driver.deletions.low_watermark

    # --- reading --------------------------------------------------------------------------------------------

    def check_reader(self, epoch: int, *, follower: bool = False, rack: str = "") -> ErrorCode:
        """Whether a consumer may read here. ``follower``: also if this broker is a follower. In modes with
        stand-ins, only a consumer that sends its rack wants to read from a follower. Any other came while
        there was no leader, and must return to the leader.

        If the consumer sends a leader epoch, it must be the current one. With an older epoch, the consumer
        may not know that the log has changed. A newer epoch shows that this broker is behind.
        """
        role = self.replica.role
        if role is Role.IDLE or (role is Role.FOLLOWER and not self._serves_beside(follower, rack)):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if role is Role.LEADER and self._is_doubted() and not self.driver.stand_in.serves:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return self.replica.check_epoch(epoch)

    def _serves_beside(self, follower: bool, rack: str) -> bool:
        if self.driver.restorer.gathers:
            return False  # It may lack records that consumers have already read.
        if self.driver.stand_in.is_outdated:
            return False
        if self.stands_in:
            return True
        return follower and (bool(rack) or not self.driver.stand_in.sends_readers_back)

    def check_position(self, offset: int, *, confirmed: bool = False) -> None:
        """Raises TidelogError for a consumer whose position is outside of the log.

        Beyond its end it is wrong only if this is certainly the leader. Any other replica may lack records
        that the consumer has read elsewhere. Told that its position is out of range, the consumer would reset
        it and read from the start again. While there is no leader it waits here, otherwise it is sent away.
        Raises MustConfirm unless ``confirmed``.
        """
        log = self.log
        if log.start_offset <= offset <= log.end_offset:
            # An offset above the high watermark is valid, although there is nothing to read yet: the high
            # watermark of a new leader may be lower than what the consumer has already read.
            return
        if offset > log.end_offset:
            if self.stands_in:
                return
            self._check_lacks_nothing(confirmed=confirmed)
        raise OffsetOutOfRange("outside of the log")

    def check_later_epoch(self, epoch: int, *, confirmed: bool = False) -> None:
        """Raises TidelogError if records of that epoch may have been written by a successor that this leader
        does not know. A consumer that has read them must not hear that they were truncated: it would go back.
        Raises MustConfirm unless ``confirmed``.
        """
        if self.replica.role is Role.LEADER and epoch > self.replica.epoch and not self.stands_in:
            self._check_lacks_nothing(confirmed=confirmed)

    def _check_lacks_nothing(self, *, confirmed: bool) -> None:
        """Raises unless this is certainly the leader. A session is not enough: an operator may have moved the
        partition, or changed its mode, a moment ago. The members follow another leader then.
        """
        if self.replica.role is not Role.LEADER or not (confirmed or self.leads_for_certain):
            raise TidelogError("this replica may lack records", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not confirmed and self.driver.successors.are_members:
            raise MustConfirm

    def when_followed(self, then: Callable[[bool], None]) -> None:
        """Call ``then`` with whether all members of the in-sync set have followed this leader since this was
        called. One of them leads, or elects another leader, if an operator has decided so.
        """
        self.driver.successors.when_members_follow(then)

    def check_may_go_on(self, offset: int) -> None:
        """Raises TidelogError for a consumer that has read everything that this stand-in will ever have: its
        disk takes no writes. It cannot vote or follow either, so it does not hear of a new leader, and the
        consumer would wait here for as long as the disk is full.
        """
        cannot_write = self.driver.closed or self.log.failure is not None
        if cannot_write and self.stands_in and offset >= self.readable_end_offset:
            raise TidelogError("this replica takes no more records", ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def divergence(self, offset: int, last_epoch: int, *, confirmed: bool = False) -> tuple[int, int] | None:
        """The divergence of the consumer's log from this one: (epoch, its end offset); None if there is none.

        From this, a consumer that sends the epoch of its last record learns that the log was truncated.
        Raises TidelogError if a successor may have written that record, and MustConfirm unless ``confirmed``.
        """
        self.check_later_epoch(last_epoch, confirmed=confirmed)
        if last_epoch < 0 or self.replica.role is not Role.LEADER or self.stands_in:
            # A follower that does not know the epoch may merely be behind. So may a leader with a successor.
            return None
        epoch, end_offset = self.log.epochs.end_offset_for(last_epoch, self.log.end_offset)
        if epoch == NO_EPOCH:
            epoch, end_offset = self.log.epochs.latest, self.log.end_offset
        return (epoch, end_offset) if epoch < last_epoch or end_offset < offset else None

    def add_fetch_waiter(self, waiter: FetchWaiter) -> None:
        self._fetch_waiters.add(waiter)

    def remove_fetch_waiter(self, waiter: FetchWaiter) -> None:
        self._fetch_waiters.remove(waiter)

    # --- called by the replica ------------------------------------------------------------------------------

    def committed(self) -> None:
        if self._fetch_waiters:
            # An upper bound of the new readable bytes; each waiting fetch then reads the actual data.
            log = self.log
            written = log.size_bytes + log.removed_bytes
            self._fetch_waiters.tell(max(written - self._committed_bytes, 1))
            if self.replica.high_watermark >= log.end_offset:
                # Before that, the reported bytes may include records that were not committed yet.
                self._committed_bytes = written

    def role_changed(self) -> None:
        """Wake waiting fetches, so that clients learn of it now and not after a timeout."""
        self._fetch_waiters.tell(EVERYTHING)
        self.on_role(self)


def _reason(refusal: ErrorCode, min_in_sync: int) -> str:
    if refusal is ErrorCode.NOT_ENOUGH_REPLICAS:
        return f"fewer than min.insync.replicas={min_in_sync} replicas are in sync"
    if refusal is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return "this broker does not lead the partition"
    return "too many produce requests wait for their replicas already"
