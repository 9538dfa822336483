"""Runs compaction: one pass at a time, the expensive part in a thread, the swaps on the event loop.

Which log is next is chosen among some of them in each turn of the loop. The thread yields after every few
milliseconds of work, because Python runs one thread at a time and requests have priority. The caller supplies
the function that yields.
"""

from collections.abc import Callable

from tidelog.broker.broker import Broker
from tidelog.log.cleaner import Candidate, Cleaner
from tidelog.log.cleaner_files import CompactionAbandoned
from tidelog.log.compaction import Cleaned, Compaction
from tidelog.log.storage import Storage
from tidelog.types import TopicPartition

GIVE_WAY_AFTER_BYTES = 64 * 1024
LOGS_PER_LOOK = 300  # in one turn of the loop: about 1 ms


class Compactor:
    def __init__(self, broker: Broker, storage: Storage, give_way: Callable[[], None]) -> None:
        """``give_way`` is called from the thread after every GIVE_WAY_AFTER_BYTES."""
        self._broker = broker
        self._cleaner = Cleaner(storage)
        self._give_way = give_way
        self._busy = False
        self._stopped = False
        self._since_pause = 0
        self._next = 0  # among the partitions that are compacted: the first to be looked at
        self._unseen = 0  # how many are still to be looked at until all were

    def run(self) -> None:
        """Begin a pass if a log needs one and none is running. Passes follow each other until no log needs
        one.
        """
        if self._busy or self._stopped or not self._broker.config.log_cleaner_enable:
            return
        names = {partition.name for partition in self._broker.partitions if partition.config.compacts}
        self._cleaner.forget_others(names)
        self._unseen = len(names)
        self._look()

    def _look(self) -> None:
        """Begin a pass over the log that needs it most among the next ones: to look at thousands of them
        before each pass would take longer than the pass.
        """
        self._busy = False  # An exception must not end all compaction.
        if self._stopped:
            return
        candidates = self._next_candidates()
        chosen = self._cleaner.pick(
            candidates,
            self._broker.services.now_ms(),
            buffer_bytes=self._broker.config.log_cleaner_dedupe_buffer_size,
            pace=self._pace,
        )
        self._unseen -= len(candidates)
        if chosen is not None:
            self._busy = True
            name, compaction = chosen
            self._step(name, compaction, compaction.read_keys, lambda _: self._clean(name, compaction))
        elif candidates and self._unseen > 0:
            self._busy = True
            self._broker.services.soon(self._look)

    def _next_candidates(self) -> list[Candidate]:
        """Those after the ones of the last time. If there are few, they are all of them each time."""
        compacted = [partition for partition in self._broker.partitions if partition.config.compacts]
        if len(compacted) <= LOGS_PER_LOOK or self._next >= len(compacted):
            self._next = 0
        some = compacted[self._next : self._next + LOGS_PER_LOOK]
        self._next += len(some)
        return [
            Candidate(
                partition.name,
                partition.log,
                partition.config,
                partition.readable_end_offset,
                partition.log.producers.last_written,
            )
            for partition in some
        ]

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
