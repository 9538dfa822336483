"""Runs compaction: one pass at a time, the expensive part in a thread, the swaps on the event loop.

The thread yields after every few milliseconds of work, because Python runs one thread at a time and requests
have priority. The caller supplies the function that yields.
"""

from collections.abc import Callable

from tidelog.broker.broker import Broker
from tidelog.log.cleaner import Candidate, Cleaner
from tidelog.log.cleaner_files import CompactionAbandoned
from tidelog.log.compaction import Cleaned, Compaction
from tidelog.log.storage import Storage
from tidelog.types import TopicPartition

GIVE_WAY_AFTER_BYTES = 64 * 1024


class Compactor:
    def __init__(self, broker: Broker, storage: Storage, give_way: Callable[[], None]) -> None:
        """``give_way`` is called from the thread after every GIVE_WAY_AFTER_BYTES."""
        self._broker = broker
        self._cleaner = Cleaner(storage)
        self._give_way = give_way
        self._busy = False
        self._stopped = False
        self._since_pause = 0

    def run(self) -> None:
        """Begin a pass if a log needs one and none is running. Passes follow each other until no log needs
        one.
        """
        config = self._broker.config
        if self._busy or self._stopped or not config.log_cleaner_enable:
            return
        candidates = [
            Candidate(
                partition.name,
                partition.log,
                partition.config,
                partition.readable_end_offset,
                partition.log.producers.last_written(partition.readable_end_offset),
            )
            for partition in self._broker.partitions
            if partition.config.compacts
        ]
        chosen = self._cleaner.pick(
            candidates,
            self._broker.services.now_ms(),
            buffer_bytes=config.log_cleaner_dedupe_buffer_size,
            pace=self._pace,
        )
        if chosen is not None:
            self._busy = True
            name, compaction = chosen
            self._step(name, compaction, compaction.read_keys, lambda _: self._clean(name, compaction))

    def stop(self) -> None:
        self._stopped = True

    def _clean(self, name: TopicPartition, compaction: Compaction) -> None:
        self._step(name, compaction, compaction.clean_next, lambda done: self._swap(name, compaction, done))

    def _swap(self, name: TopicPartition, compaction: Compaction, cleaned: Cleaned | None) -> None:
        if cleaned is not None:
            compaction.swap_in(cleaned, self._broker.services.now_ms())
            self._clean(name, compaction)
        else:
            self._step(name, compaction, compaction.make_durable, lambda _: self._finish(name, compaction))

    def _finish(self, name: TopicPartition, compaction: Compaction) -> None:
        self._cleaner.finish(name, compaction)
        self._busy = False
        self.run()

    def _step(
        self,
        name: TopicPartition,
        compaction: Compaction,
        work: Callable[[], object],
        following: "Callable[..., None]",
    ) -> None:
        """Run ``work`` in a thread, then ``following`` on the event loop. An error ends the pass."""

        def done(result: object) -> None:
            try:
                if isinstance(result, BaseException):
                    raise result
                following(result)
            except Exception as error:
                self._busy = False
                self._cleaner.give_up(name, compaction, error)

        self._broker.services.offload(work, done)

    def _pace(self, size: int) -> None:
        if self._stopped:
            raise CompactionAbandoned("the broker is stopping")
        self._since_pause += size
        if self._since_pause >= GIVE_WAY_AFTER_BYTES:
            self._since_pause = 0
            self._give_way()
