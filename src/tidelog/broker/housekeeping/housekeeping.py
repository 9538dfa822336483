"""Periodic tasks of a broker: retention, flushes that are due, checkpoints, compaction, replicas of
the internal topics.

Each task visits the partitions in slices, so that a broker with thousands of partitions can handle requests
in between. Tasks that only look for rare work visit a bounded number of partitions per second: a partition
without load must cost next to nothing.
"""

import logging
from collections.abc import Callable, Container, Iterable

from tidelog.broker.broker import Broker
from tidelog.broker.housekeeping.compactor import Compactor
from tidelog.broker.housekeeping.internal_replicas import InternalReplicas
from tidelog.broker.housekeeping.scrubber import IDLE_MS, Scrubber
from tidelog.broker.partitions.partition import Partition
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage
from tidelog.errors import StorageError, TidelogError
from tidelog.log.directory import Checkpoint, DataDirectory
from tidelog.log.index_build import Unindexed
from tidelog.log.segment import Segment
from tidelog.log.storage import Storage
from tidelog.replication.syncing import Syncer
from tidelog.services import Timer, ignore
from tidelog.types import TopicPartition

logger = logging.getLogger(__name__)

PARTITIONS_PER_SLICE = 50
LOGS_PER_SLICE = 300  # to be captured for a checkpoint: about 2 ms
LOOKS_PER_MS = 4  # at partitions in which there is probably nothing to do: about 0.3 % of a core
REMOVAL_INTERVAL_MS = 1000
NAMES_INTERVAL_MS = 500
NEW_LOGS_INTERVAL_MS = 1000
INTERNAL_TOPICS_INTERVAL_MS = 2000
EARLY_MS = 5
SLOW_MS = 40
SCRUBBING = "scrubbing"


class Housekeeping:
    def __init__(
        self,
        broker: Broker,
        directory: DataDirectory,
        syncer: Syncer,
        storage: Storage,
        *,
        give_way: Callable[[], None] = ignore,
        scrub_idle_ms: float = IDLE_MS,
    ) -> None:
        """``give_way`` is called from threads with long computations, so that they yield."""
        self._broker = broker
        self._directory = directory
        self._syncer = syncer
        self._compactor = Compactor(broker, storage, give_way)
        self.scrubber = Scrubber(broker, scrub_idle_ms)
        self._internal = InternalReplicas(broker)
        self._timed: list[Partition] = []  # Those with a `flush.ms`, updated by `_flush_names`.
        self._names_image: ClusterImage | None = None  # after which `_flush_names` has looked at every log
        self._names_ms = 0  # when it did
        self._timers: dict[str, Timer] = {}
        self._removing = False
        self._checkpointing = False
        self.removals = 0  # number of times that files were removed in a thread
        self._stopped = False

    def start(self, chores: Container[str] | None = None) -> None:
        """Start only the given tasks; None starts all of them."""
        for name, (interval_ms, chore) in self._chores().items():
            if chores is None or name in chores:
                self._every(name, interval_ms, chore)
        if chores is None or SCRUBBING in chores:
            self.scrubber.start()

    def _chores(self) -> dict[str, tuple[Callable[[], int], Callable[[], None]]]:
        """The interval and the function of each task."""

        def config() -> BrokerConfig:
            return self._broker.config  # Read each time, because settings can change.

        return {
            "flush": (lambda: config().log_flush_scheduler_interval_ms, self._flush),
            "names": (lambda: NAMES_INTERVAL_MS, self._flush_names),
            "retention": (lambda: config().log_retention_check_interval_ms, self._enforce_retention),
            "recovery points": (lambda: config().log_flush_offset_checkpoint_interval_ms, self._checkpoint),
            "new logs": (lambda: NEW_LOGS_INTERVAL_MS, self._note_new_logs),
            "removal": (lambda: self._spread_ms(REMOVAL_INTERVAL_MS), self._remove),
            "internal topics": (lambda: INTERNAL_TOPICS_INTERVAL_MS, self._internal.look),
            "compaction": (lambda: config().log_cleaner_backoff_ms, self._compactor.run),
        }

    def stop(self) -> None:
        self._stopped = True
        self.scrubber.stop()
        self._compactor.stop()
        for timer in self._timers.values():
            timer.cancel()

    def _every(self, name: str, interval_ms: Callable[[], int], chore: Callable[[], None]) -> None:
        """Run a task periodically. The interval is read each time, because it can change."""

        def run() -> None:
            if self._stopped:
                return
            try:
                chore()
            except TidelogError as error:
                logger.error("%s: %s", name, error.message)
            except Exception:
                logger.exception("%s failed", name)
            services = self._broker.services
            early = services.perturb("early chore")
            self._timers[name] = services.later(EARLY_MS if early else interval_ms(), run)

        self._timers[name] = self._broker.services.later(interval_ms(), run)

    def _walk(self, visit: Callable[[Partition], None], then: Callable[[], None] = ignore) -> None:
        partitions = list(self._broker.partitions)

        def visit_slice(start: int) -> None:
            for partition in partitions[start : start + PARTITIONS_PER_SLICE]:
                if partition.log.closed:
                    continue
                try:
                    visit(partition)
                except (TidelogError, OSError) as error:
                    logger.error("%s: %s", partition.name, error)
            following = start + PARTITIONS_PER_SLICE
            if following >= len(partitions):
                then()
            elif not self._stopped:
                self._broker.services.in_turn(lambda: visit_slice(following), urgent=True)

        visit_slice(0)

    def _flush(self) -> None:
        """Sync partitions whose ``flush.ms`` is due. Only those are visited: checking a thousand idle logs
        ten times a second would cost more than all their other work.
        """
        now_ms = self._broker.services.now_ms()
        for partition in self._timed:
            if not partition.log.closed and partition.log.sync_due(now_ms):
                self._syncer.want(partition.driver)

    def _spread_ms(self, interval_ms: int) -> int:
        """An interval at which looking at all partitions is cheap."""
        return max(interval_ms, len(self._broker.partitions) // LOOKS_PER_MS)

    def _flush_names(self) -> None:
        """Sync all logs that need it, for instance because segments were added or removed, and update the
        list of partitions with a `flush.ms`. With thousands of partitions that is done less often, unless
        logs may have been opened or their settings changed.
        """
        broker, now_ms = self._broker, self._broker.services.now_ms()
        waited_ms = now_ms - self._names_ms
        if broker.image is self._names_image and 0 <= waited_ms < self._spread_ms(NAMES_INTERVAL_MS):
            return
        self._names_image = broker.image if broker.partitions.all_open else None
        self._names_ms = now_ms
        timed: list[Partition] = []

        def look(partition: Partition) -> None:
            if partition.log.is_flushed_by_time:
                timed.append(partition)
            if partition.log.sync_due(now_ms):
                self._syncer.want(partition.driver)

        self._timed = timed
        self._walk(look)

    def _enforce_retention(self) -> None:
        self._walk(self._retain)

    def _retain(self, partition: Partition) -> None:
        now_ms = self._broker.services.now_ms()
        try:
            deleted = partition.log.enforce_retention(now_ms, partition.readable_end_offset, defers=True)
        except Unindexed as unindexed:
            partition.driver.build_indexes(unindexed)  # The next run uses them.
            return
        for segment in deleted:
            logger.info("deleted segment %s of %s by retention", segment.base_offset, partition.name)
        if deleted:
            partition.driver.begins_later()

    def _note_new_logs(self) -> None:
        """Write a checkpoint after a log was created. If its directory disappears, the next start must know
        that the log existed.
        """
        if self._directory.has_new_logs:
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Capture the offsets of all logs, a slice in a turn, and write them in a thread."""
        if self._checkpointing:
            return
        self._checkpointing = True
        self._directory.has_new_logs = False
        names = list(self._directory.logs)
        services = self._broker.services
        slow = services.perturb("slow checkpoint")
        size = 1 if slow else LOGS_PER_SLICE

        def capture_slice(start: int) -> None:
            if self._stopped:
                return
            some = names[start : start + size]
            self._directory.capture(some, self._high_watermarks_of(some))
            if start + size >= len(names):
                self._write_captured()
            elif slow:
                services.later(SLOW_MS, lambda: capture_slice(start + size))
            else:
                services.in_turn(lambda: capture_slice(start + size), urgent=True)

        capture_slice(0)

    def _write_captured(self) -> None:
        checkpoint = self._directory.captured()
        self._broker.services.offload(checkpoint.run, lambda _: self._checkpointed(checkpoint))

    def _high_watermarks_of(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = (self._broker.partitions.find(*name)[0] for name in names)
        return {partition.name: partition.high_watermark for partition in found if partition is not None}

    def _checkpointed(self, checkpoint: Checkpoint) -> None:
        self._checkpointing = False
        try:
            self._directory.finish_checkpoint(checkpoint)
        except StorageError as error:
            logger.error("%s", error.message)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {partition.name: partition.high_watermark for partition in self._broker.partitions}

    def _remove(self) -> None:
        """Remove deleted files in a thread, because removing half a gigabyte takes 30 ms."""
        if self._removing:
            return
        now_ms = self._broker.services.now_ms()
        directory, doomed = self._directory, self._directory.take_doomed(now_ms)
        segments: list[Segment] = []

        def remove() -> None:
            for segment in segments:
                try:
                    segment.remove()
                except OSError as error:
                    logger.error("cannot remove %r: %s", segment, error)
            directory.remove_trees(doomed)

        def removed(outcome: object) -> None:
            self._removing = False
            if isinstance(outcome, BaseException):
                logger.error("removal failed: %s", outcome)

        def begin() -> None:
            if segments or doomed:
                self.removals += 1
                self._broker.services.offload(remove, removed)
            else:
                self._removing = False

        self._removing = True
        self._walk(lambda partition: segments.extend(partition.log.take_deleted(now_ms)), begin)
