"""Which log of a data directory is compacted next, and how far each one is clean.

Owns ``cleaner-offset-checkpoint``: for each partition the offset before which everything was compacted, in
Kafka's format. The passes themselves are in :mod:`tidelog.log.compaction`. Does not know threads: whoever
drives it runs the parts of a pass where it says so, one pass at a time.

A driver's loop, with ``thread(f)`` for "run f in the cleaner's thread and wait"::

    while (chosen := cleaner.pick(candidates, now_ms, buffer_bytes=…)) is not None:
        name, compaction = chosen
        try:
            thread(compaction.read_keys)
            while (cleaned := thread(compaction.clean_next)) is not None:
                compaction.swap_in(cleaned, now_ms)
            thread(lambda: cleaner.make_durable(name, compaction))
        except TidelogError as error:
            cleaner.give_up(name, compaction, error)

Losing the checkpoint costs a pass over the whole log and nothing else.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.errors import CorruptBatch, StorageError
from tidelog.log.checkpoints import decode_offsets, encode_offsets
from tidelog.log.cleaner_files import CompactionAbandoned
from tidelog.log.cleaner_map import keys_that_fit
from tidelog.log.cleaner_plan import Cleanable, CompactionSettings, find_cleanable, is_overdue
from tidelog.log.compaction import Compaction, Pace
from tidelog.log.files import read_whole, replace_whole
from tidelog.log.log import Log
from tidelog.log.producers import LastWritten
from tidelog.log.storage import Storage
from tidelog.types import TopicPartition

CHECKPOINT_FILE = "cleaner-offset-checkpoint"

_logger = logging.getLogger(__name__)


class Candidate(NamedTuple):
    """A log with ``compact`` in its cleanup policy."""

    name: TopicPartition
    log: Log
    settings: CompactionSettings
    high_watermark: int
    last_written: Mapping[int, LastWritten] = {}


class Cleaner:
    """The compaction of all logs of one data directory, one after the other."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory
        self._path = f"{directory}/{CHECKPOINT_FILE}"
        self._clean_offsets = self._load()
        self._logs: dict[TopicPartition, Log] = {}  # Which log an offset belongs to, once it was seen.
        self._damaged: dict[TopicPartition, Log] = {}  # Left alone until they are opened again.

    def _load(self) -> dict[TopicPartition, int]:
        text = read_whole(self._storage, self._path)
        try:
            return decode_offsets(text) if text is not None else {}
        except CorruptBatch as error:
            _logger.warning("%s: %s; every compacted log is read from its start again", self._path, error)
            return {}

    def clean_offset(self, name: TopicPartition) -> int:
        """Everything before it was compacted; 0 when nothing is known."""
        return self._clean_offsets.get(name, 0)

    def pick(
        self, candidates: Iterable[Candidate], now_ms: int, *, buffer_bytes: int, pace: Pace | None = None
    ) -> tuple[TopicPartition, Compaction] | None:
        """The beginning of a pass over the log that needs it most; None when none needs one.

        ``buffer_bytes`` is ``log.cleaner.dedupe.buffer.size``: memory for the keys of one pass.
        """
        present = {candidate.name: candidate for candidate in candidates}
        self._forget_all_but(present)
        due = []
        for candidate in present.values():
            cleanable = self._cleanable(candidate, now_ms)
            if cleanable is not None and cleanable.is_due(candidate.settings):
                due.append((candidate, cleanable))
        if not due:
            return None
        candidate, cleanable = max(due, key=lambda each: (each[1].overdue, each[1].dirty_ratio))
        compaction = Compaction(
            self._storage,
            candidate.log,
            candidate.settings,
            cleanable,
            now_ms=now_ms,
            keys_max=keys_that_fit(buffer_bytes),
            last_written=candidate.last_written,
            pace=pace,
        )
        return candidate.name, compaction

    def _cleanable(self, candidate: Candidate, now_ms: int) -> Cleanable | None:
        name, log = candidate.name, candidate.log
        if log.closed or log.failure is not None or self._damaged.get(name) is log:
            return None
        if is_overdue(log.segments[-1], candidate.settings, now_ms):
            # Nobody appends, so nothing else makes this segment inactive.
            try:
                log.roll(now_ms)
            except StorageError as error:
                _logger.error("%s cannot be compacted in time: %s", name, error.message)
                return None
        return find_cleanable(
            log,
            candidate.settings,
            clean_offset=self.clean_offset(name),
            high_watermark=candidate.high_watermark,
            now_ms=now_ms,
        )

    def _forget_all_but(self, present: Mapping[TopicPartition, Candidate]) -> None:
        """A topic that is gone, not compacted any more, or made again under its name begins at its start."""
        for name in [name for name in self._clean_offsets if name not in present]:
            self.forget(name)
        for name, candidate in present.items():
            if self._logs.setdefault(name, candidate.log) is not candidate.log:
                self.forget(name)
                self._logs[name] = candidate.log

    def forget(self, name: TopicPartition) -> None:
        """The partition was deleted."""
        for known in (self._clean_offsets, self._logs, self._damaged):
            known.pop(name, None)

    def truncated(self, name: TopicPartition, end_offset: int) -> None:
        """The log was cut to ``end_offset``: what is written there again was not compacted."""
        self._logs.pop(name, None)  # A pass that is under way has nothing to say about this log any more.
        if self.clean_offset(name) > end_offset:
            self._clean_offsets[name] = end_offset

    # -- the end of a pass -------------------------------------------------------------

    def make_durable(self, name: TopicPartition, compaction: Compaction) -> None:
        """All segments of the pass are in place: remember how far the log is clean. May run in a thread.

        The names of the new segments go to disk first. A checkpoint that claims more than the disk has would
        let a tombstone go while an older value of its key is still there.
        """
        if self._logs.get(name) is not compaction.log:
            raise CompactionAbandoned(f"{name} was deleted or cut meanwhile")
        try:
            self._storage.sync_directory(compaction.log.directory)
            self._clean_offsets[name] = compaction.end_offset
            replace_whole(self._storage, self._path, encode_offsets(dict(self._clean_offsets)))
            self._storage.sync_directory(self._directory)
        except OSError as error:
            raise StorageError(f"cannot write {self._path}: {error}") from error
        _logger.info(
            "compacted %s up to offset %d: kept %d records, dropped %d; read %d bytes, wrote %d",
            name, compaction.end_offset, compaction.records_kept, compaction.records_dropped,
            compaction.bytes_read, compaction.bytes_written,
        )  # fmt: skip

    def give_up(self, name: TopicPartition, compaction: Compaction, error: Exception) -> None:
        """The pass ended early. A damaged log is left alone from now on; any other gets its turn again."""
        if isinstance(error, CorruptBatch):
            self._damaged[name] = compaction.log
            _logger.error("%s is not compacted any more until the broker starts again: %s", name, error)
        elif isinstance(error, CompactionAbandoned):
            _logger.info("the compaction of %s begins over: %s", name, error)
        else:
            _logger.error("the compaction of %s failed and will be tried again: %s", name, error)
