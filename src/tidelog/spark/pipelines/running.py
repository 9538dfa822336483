"""Runs streaming queries to their end, or until they are stopped; reports their progress.

Owns the waiting. A stop loses nothing: an unfinished micro-batch is repeated from the checkpoint the next
time.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_S = 0.25

# Spark gives a Python process ten seconds to start, of which its own imports take one to four seconds of CPU:
# a busy machine exceeds that, and the query fails although nothing is wrong with it.
_TOO_BUSY = "Python worker failed to connect back"
PATIENCE_S = 300.0
PAUSE_S, PAUSE_MAX_S = 2.0, 15.0


@dataclass(frozen=True, slots=True)
class Progress:
    """A pipeline's progress."""

    rows: int  # since it was started
    rows_per_second: float  # of the last step
    step: int  # number of the micro-batch
    what: str = "rows"
    counts: bool = True  # False: ``what`` says it all, such as "merging 3 of 7 directories"


class MachineTooBusy(RuntimeError):
    """Spark's Python processes never started within Spark's own limit."""

    def __str__(self) -> str:
        return (
            "Spark gives a Python process ten seconds to start, and for "
            f"{PATIENCE_S / 60:g} minutes none did: this machine, or the Connect server's, is too busy; "
            "run it again when it is less so."
        )


Tell = Callable[[Progress], None]


def discard(progress: Progress) -> None:
    """For callers that do not need it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    rows: int  # read by the first query of this run
    stopped: bool  # before its end, on request


def run(
    *writers: "DataStreamWriter",
    every: str | None = None,
    stop: Event | None = None,
    tell: Tell = discard,
) -> Outcome:
    """Run queries over what is there now, one after another; or with ``every`` (such as ``10 seconds``) in
    parallel, until ``stop`` is set.

    Progress is reported for the first one; if one fails, all end.
    """
    counter = _Counter(tell)
    asked = stop or Event()
    if every is not None:
        _run_together([writer.trigger(processingTime=every) for writer in writers], asked, counter)
        return Outcome(counter.rows, asked.is_set())
    for number, writer in enumerate(writers):
        if not asked.is_set():
            _run_together([writer.trigger(availableNow=True)], asked, counter if number == 0 else None)
    return Outcome(counter.rows, asked.is_set())


def _run_together(writers: "Sequence[DataStreamWriter]", stop: Event, counter: "_Counter | None") -> None:
    queries: list[StreamingQuery] = []
    restarts = Restarts(stop)
    try:
        for writer in writers:
            if query := restarts.start(writer):
                queries.append(query)
        while not stop.is_set():
            # Read once per iteration: a query that ends after its failure was checked has not ended well yet.
            ended = [number for number, query in enumerate(queries) if not query.isActive]
            failures = [(number, failure) for number in ended if (failure := queries[number].exception())]
            for number, failure in failures:
                restarts.allow_after(failure)
                queries[number] = restarts.start(writers[number]) or queries[number]
            if len(ended) == len(queries) and not failures:
                break
            time.sleep(POLL_S)
            if counter is not None:
                counter.take(queries[0].recentProgress)
    finally:
        # Also after a failure or Ctrl-C: nothing may continue in the background.
        for query in queries:
            query.stop()
    if counter is not None and queries:
        counter.take(queries[0].recentProgress)


class Restarts:
    """Restarts queries after a failure that is not their own, for a limited time."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self._pause_s = PAUSE_S
        # Of a series of failures: each at most PATIENCE_S after the one before.
        self._first = self._last = float("-inf")

    def start(self, writer: "DataStreamWriter") -> "StreamingQuery | None":
        """None: asked to stop while it waited."""
        while not self._stop.is_set():
            try:
                query = writer.start()
            except PySparkException as failure:  # Spark Connect starts the process before the query
                self.allow_after(failure)
            else:
                return query
        return None

    def allow_after(self, failure: Exception) -> None:
        """Return after a pause, or raise the failure."""
        if _TOO_BUSY not in str(failure):
            raise failure
        now = time.monotonic()
        if now - self._last >= PATIENCE_S:
            self._first, self._pause_s = now, PAUSE_S
        self._last = now
        if now - self._first >= PATIENCE_S:
            raise MachineTooBusy from failure
        # The process that was too slow continues its imports: another one beside it would be too slow as
        # well.
        self._stop.wait(self._pause_s)
        self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)


class _Counter:
    """Sums what each micro-batch read; Spark reports the last hundred again and again."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last = -1
        self.rows = 0

    def take(self, recent: list[Any]) -> None:
        for one in recent:
            if one["batchId"] > self._last and one["numInputRows"]:
                self._last = one["batchId"]
                self.rows += one["numInputRows"]
                self._tell(Progress(self.rows, one["processedRowsPerSecond"] or 0.0, one["batchId"]))
