"""One partition this broker leads: appends, the high watermark, and who waits for either.

The log says what is on disk, the topic's policy says what that means; this class holds the two together and
tells the waiting produces and fetches. It never blocks and never asks the time.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidelog.broker.validation import AppendRules, check_batch, recompressed
from tidelog.config import TopicConfig
from tidelog.errors import ErrorCode, OffsetOutOfRange, StorageError, TidelogError
from tidelog.log.log import Log
from tidelog.protocol import batch as batches
from tidelog.types import NO_EPOCH, TopicPartition

SYNC_EVERY_MESSAGE = 1


class Appended(NamedTuple):
    base_offset: int
    end_offset: int  # exclusive
    log_append_time_ms: int  # -1 unless the broker's clock stamped the batch


class FetchWaiter(Protocol):
    """A parked fetch."""

    def data_arrived(self, size: int) -> None: ...


class Partition:
    __slots__ = (
        "_fetch_waiters",
        "_produce_waiters",
        "config",
        "durable_acks",
        "high_watermark",
        "leader_epoch",
        "log",
        "name",
        "on_sync_wanted",
        "rules",
    )

    def __init__(
        self,
        name: TopicPartition,
        log: Log,
        config: TopicConfig,
        leader_epoch: int,
        on_sync_wanted: Callable[["Partition"], None],
    ) -> None:
        self.name = name
        self.log = log
        self.leader_epoch = leader_epoch
        self.on_sync_wanted = on_sync_wanted
        self._produce_waiters: deque[tuple[int, Callable[[ErrorCode], None]]] = deque()
        self._fetch_waiters: list[FetchWaiter] = []
        self.reconfigure(config)
        # A lone replica has committed whatever it holds as durably as its topic asks.
        self.high_watermark = self.durable_end_offset

    def reconfigure(self, config: TopicConfig) -> None:
        self.config = config
        self.log.config = config
        self.rules = AppendRules.of(config)
        self.durable_acks = config.flush_messages == SYNC_EVERY_MESSAGE
        """Whether an ok means "synced"; any larger flush.messages only bounds what a power failure can
        take.
        """

    @property
    def durable_end_offset(self) -> int:
        """End of what may be acknowledged."""
        return self.log.synced_end_offset if self.durable_acks else self.log.end_offset

    def append(self, records: memoryview, now_ms: int, produce_version: int) -> Appended:
        """Check, number and write one batch. Raises the refusal; then nothing was written.

        A batch that is in the log already is not written again: the answer is where it lies.
        """
        log = self.log
        rules = self.rules
        header = check_batch(records, rules, now_ms, produce_version)
        if header.producer_id >= 0:
            original = log.producers.check(header, now_ms)
            if original is not None:
                return Appended(original.base_offset, original.last_offset + 1, original.append_time_ms)
        if rules.codec >= 0 and header.attributes & batches.CODEC_MASK != rules.codec:
            records = recompressed(records, rules)
        base_offset = log.end_offset
        batches.assign(records, 0, base_offset, self.leader_epoch)
        if rules.stamp_append_time:
            batches.set_append_time(records, 0, len(records), now_ms)
            max_timestamp = append_time = now_ms
        else:
            max_timestamp, append_time = header.max_timestamp, -1
        try:
            log.append(
                records, base_offset + header.last_offset_delta, max_timestamp, self.leader_epoch, now_ms
            )
        except StorageError as failure:
            # A failed log is not synced any more: what waits for that would wait for ever. A passing refusal
            # (too many open files) concerns this batch only.
            if log.failure is not None:
                self.failed(failure)
            raise
        end_offset = log.end_offset
        if self.durable_acks:
            self.on_sync_wanted(self)
        else:
            self._commit(end_offset, len(records))
            if log.sync_due(now_ms):
                self.on_sync_wanted(self)
        return Appended(base_offset, end_offset, append_time)

    def check_epoch(self, epoch: int) -> ErrorCode:
        """A reader that knows a leader epoch must know the right one: an older one hides that the log may
        have changed under it, a newer one shows that we are the ones who are behind.
        """
        if epoch in (NO_EPOCH, self.leader_epoch):
            return ErrorCode.NONE
        if epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def divergence(self, offset: int, last_epoch: int) -> tuple[int, int] | None:
        """Where the log a reader knows parts from ours: (epoch, its end offset); None where it does not.

        A reader that names the epoch of the last record it has learns from this that the log was truncated.
        """
        if last_epoch < 0:
            return None
        epoch, end_offset = self.log.epochs.end_offset_for(last_epoch, self.log.end_offset)
        if epoch == NO_EPOCH:
            epoch, end_offset = self.log.epochs.latest, self.log.end_offset
        return (epoch, end_offset) if epoch < last_epoch or end_offset < offset else None

    def when_durable(self, end_offset: int, done: Callable[[ErrorCode], None]) -> None:
        """Call ``done`` once everything before ``end_offset`` may be acknowledged."""
        if self.durable_end_offset >= end_offset:
            done(ErrorCode.NONE)
        elif self.log.failure is not None:
            done(self.log.failure.code)
        else:
            self._produce_waiters.append((end_offset, done))

    def delete_records(self, before: int | None) -> None:
        """Give up everything before an offset; None means everything committed."""
        if "delete" not in self.config.cleanup_policy:
            raise TidelogError(
                "records can only be deleted where cleanup.policy contains delete", ErrorCode.POLICY_VIOLATION
            )
        offset = self.high_watermark if before is None else before
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(
                f"offset {offset} is not between 0 and the high watermark {self.high_watermark}"
            )
        if offset > self.log.start_offset:
            self.log.advance_start(offset)

    def synced(self) -> None:
        """More of the log is on disk for good than before."""
        durable = self.durable_end_offset
        # A waiter's size is not worth remembering: more than nothing arrived, and the fetch looks for itself.
        self._commit(durable, 1 << 30)
        waiters = self._produce_waiters
        while waiters and waiters[0][0] <= durable:
            waiters.popleft()[1](ErrorCode.NONE)

    def failed(self, error: TidelogError) -> None:
        """The disk gave up: what waits for it will never be durable here."""
        waiters, self._produce_waiters = self._produce_waiters, deque()
        for _, done in waiters:
            done(error.code)

    def closed(self) -> None:
        """The partition leaves this broker: waiting clients learn it now instead of by a timeout."""
        self.failed(StorageError("the partition was removed", ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self._wake(1 << 30)

    def _commit(self, end_offset: int, size: int) -> None:
        if end_offset > self.high_watermark:
            self.high_watermark = end_offset
            if self._fetch_waiters:
                self._wake(size)

    def _wake(self, size: int) -> None:
        for waiter in list(self._fetch_waiters):
            waiter.data_arrived(size)

    def add_fetch_waiter(self, waiter: FetchWaiter) -> None:
        self._fetch_waiters.append(waiter)

    def remove_fetch_waiter(self, waiter: FetchWaiter) -> None:
        if waiter in self._fetch_waiters:
            self._fetch_waiters.remove(waiter)
