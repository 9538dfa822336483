"""Streaming queries run to their end, or until somebody asks them to stop; what they do meanwhile is told.

Owns the waiting. A stop loses nothing: what a micro-batch had not finished is done again from the checkpoint
the next time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pipeline is."""

    rows: int  # since it was started
    rows_per_second: float  # of the last step
    step: int  # number of the micro-batch
    what: str = "rows"


Tell = Callable[[Progress], None]


def tell_nobody(progress: Progress) -> None:
    """For callers who do not want to know."""


@dataclass(frozen=True, slots=True)
class Outcome:
    rows: int  # read by the first query of this run
    stopped: bool  # before its end, on request


def run(
    *writers: "DataStreamWriter",
    every: str | None = None,
    stop: Event | None = None,
    tell: Tell = tell_nobody,
) -> Outcome:
    """Run queries over what is there now, or with ``every`` (such as ``10 seconds``) until ``stop`` is set.

    The first one is the one that is told of; if one fails, all end.
    """
    counter = _Counter(tell)
    queries: list[StreamingQuery] = []
    try:
        for writer in writers:
            trigger = {"availableNow": True} if every is None else {"processingTime": every}
            queries.append(writer.trigger(**trigger).start())
        while not _all_ended(queries) and not (stop is not None and stop.is_set()):
            time.sleep(POLL_S)
            counter.take(queries[0].recentProgress)
    finally:
        # Also after a failure or Ctrl-C: nothing may go on in the background.
        for query in queries:
            query.stop()
    counter.take(queries[0].recentProgress)
    return Outcome(counter.rows, stop is not None and stop.is_set())


def _all_ended(queries: "Sequence[StreamingQuery]") -> bool:
    """Raises what a query failed with."""
    for query in queries:
        if not query.isActive and (failure := query.exception()) is not None:
            raise failure
    return not any(query.isActive for query in queries)


class _Counter:
    """Adds up what each micro-batch read; Spark tells of the last hundred again and again."""

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
