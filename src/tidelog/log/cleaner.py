"""Which log of a data directory is compacted next.

How far a log is clean is a mark in its own directory (:mod:`tidelog.log.offset_mark`): it is removed with the
partition, and the log lowers it before a truncation. The passes themselves are in
:mod:`tidelog.log.compaction`. Does not know threads: the driver runs the parts of a pass in a thread, one
pass
at a time.

A driver's loop, with ``thread(f)`` for "run f in the cleaner's thread and wait"::

    while (chosen := cleaner.pick(candidates, now_ms, buffer_bytes=…)) is not None:
        name, compaction = chosen
        try:
            thread(compaction.read_keys)
            while (cleaned := thread(compaction.clean_next)) is not None:
                compaction.swap_in(cleaned, now_ms)
            thread(compaction.make_durable)
            cleaner.finish(name, compaction)
        except TidelogError as error:
            cleaner.give_up(name, compaction, error)

If the mark is lost, the whole log is compacted again; nothing else is lost.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from tidelog.errors import CorruptBatch, StorageError, TidelogError
from tidelog.log.cleaner_files import CompactionAbandoned
from tidelog.log.cleaner_map import keys_that_fit
from tidelog.log.cleaner_plan import Cleanable, CompactionSettings, find_cleanable, is_overdue
from tidelog.log.compaction import Compaction, Pace
from tidelog.log.log import Log
from tidelog.log.producers import LastWritten
from tidelog.log.storage import Storage
from tidelog.types import TopicPartition

_logger = logging.getLogger(__name__)


class Candidate(NamedTuple):
    """A log with ``compact`` in its cleanup policy."""

    name: TopicPartition
    log: Log
    settings: CompactionSettings
    high_watermark: int
    # Of each live producer, below an offset: asked only if the log is chosen, because there may be thousands.
    last_written: Callable[[int], Mapping[int, LastWritten]] = lambda _: {}


class Cleaner:
    """The compaction of all logs of one data directory, one after another."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        # Skipped until they are reopened or truncated. The number is that of their truncations.
        self._damaged: dict[TopicPartition, tuple[Log, int]] = {}
        self._failed: set[TopicPartition] = set()  # They come after the others.

    def forget_others(self, names: Collection[TopicPartition]) -> None:
        """Only these logs are compacted: what is known of any other is forgotten."""
        self._damaged = {name: known for name, known in self._damaged.items() if name in names}
        self._failed.intersection_update(names)

    def pick(
        self, candidates: Iterable[Candidate], now_ms: int, *, buffer_bytes: int, pace: Pace | None = None
    ) -> tuple[TopicPartition, Compaction] | None:
        """Start a pass over the log of these that needs it most; None if none does.

        ``buffer_bytes`` is ``log.cleaner.dedupe.buffer.size``: memory for the keys of one pass.
        """
        due = []
        for candidate in candidates:
            cleanable = self._try_cleanable(candidate, now_ms)
            if cleanable is not None and cleanable.is_due(candidate.settings):
                due.append((candidate, cleanable))
        if not due:
            return None
        candidate, cleanable = max(
            due, key=lambda each: (each[0].name not in self._failed, each[1].overdue, each[1].dirty_ratio)
        )
        compaction = Compaction(
            self._storage,
            candidate.log,
            candidate.settings,
            cleanable,
            now_ms=now_ms,
            keys_max=keys_that_fit(buffer_bytes),
            last_written=candidate.last_written(candidate.high_watermark),
            pace=pace,
        )
        return candidate.name, compaction

    def _try_cleanable(self, candidate: Candidate, now_ms: int) -> Cleanable | None:
        """None, too, if the log cannot be read: the others are compacted nevertheless."""
        try:
            return self._cleanable(candidate, now_ms)
        except CorruptBatch as error:
            self._note_damage(candidate.name, candidate.log, error)
        except OSError as error:
            _logger.error("%s is not compacted: %s", candidate.name, error)
        return None

    def _cleanable(self, candidate: Candidate, now_ms: int) -> Cleanable | None:
        name, log = candidate.name, candidate.log
        if log.closed or log.failure is not None or self._damaged.get(name) == (log, log.cuts):
            return None
        if is_overdue(log.segments[-1], candidate.settings, now_ms):
            # Without appends, nothing else makes this segment inactive.
            try:
                log.roll(now_ms)
            except StorageError as error:
                _logger.error("%s cannot be compacted in time: %s", name, error.message)
                return None
        return find_cleanable(
            log,
            candidate.settings,
            clean_offset=log.clean_offset,
            # A record must be durable before the older values of its key are removed. Otherwise a power
            # failure would leave neither.
            high_watermark=min(candidate.high_watermark, log.synced_end_offset),
            now_ms=now_ms,
        )

    # -- the end of a pass -------------------------------------------------------------

    def finish(self, name: TopicPartition, compaction: Compaction) -> None:
        """All segments of the pass are in place and durable: record how far the log is clean."""
        compaction.finish()
        self._failed.discard(name)
        _logger.info(
            "compacted %s up to offset %d: kept %d records, dropped %d; read %d bytes, wrote %d",
            name, compaction.end_offset, compaction.records_kept, compaction.records_dropped,
            compaction.bytes_read, compaction.bytes_written,
        )  # fmt: skip

    def give_up(self, name: TopicPartition, compaction: Compaction, error: Exception) -> None:
        """The pass ended early. A damaged log is skipped from now on; any other is tried again, after the
        others.
        """
        self._failed.add(name)
        if isinstance(error, CorruptBatch):
            self._note_damage(name, compaction.log, error)
        elif isinstance(error, CompactionAbandoned):
            _logger.info("the compaction of %s starts over: %s", name, error)
        elif isinstance(error, TidelogError):
            _logger.error("the compaction of %s failed and will be retried: %s", name, error)
        else:
            _logger.error("the compaction of %s failed and will be retried", name, exc_info=error)

    def _note_damage(self, name: TopicPartition, log: Log, error: CorruptBatch) -> None:
        self._damaged[name] = (log, log.cuts)
        _logger.error("%s will not be compacted until it is repaired: %s", name, error)
