"""How far a stream is behind its topics: what Spark's own source reports as metrics in a query's progress.

Spark has no place for metrics of a Python source, but its progress names the offsets that were read and the
latest ones. Owns what follows from them, and a listener that reports it.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from tidelog.client.messages import TopicPartition
from tidelog.spark.reading.positions import from_wire

logger = logging.getLogger(__name__)

_SAMPLED_PARTITIONS = 16
_SAMPLE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Backlog:
    """Records that a stream has not read yet."""

    read: Mapping[TopicPartition, int]  # the next offset to read
    latest: Mapping[TopicPartition, int]  # the end of what can be read

    @property
    def behind(self) -> dict[TopicPartition, int]:
        return {one: max(end - self.read.get(one, 0), 0) for one, end in self.latest.items()}

    @property
    def metrics(self) -> dict[str, str]:
        """Under the names of Spark's own source, as texts like there."""
        behind = list(self.behind.values()) or [0]
        return {
            "minOffsetsBehindLatest": str(min(behind)),
            "maxOffsetsBehindLatest": str(max(behind)),
            "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        }


def backlogs(progress: Any) -> list[Backlog]:
    """Of each source of a query that reads topics; ``progress`` is ``query.lastProgress``, or that of a
    listener's event. Sources of other kinds are left out.
    """
    found = (backlog_of(source) for source in _field(progress, "sources") or ())
    return [one for one in found if one is not None]


def backlog_of(source: Any) -> Backlog | None:
    """Of one source of a query's progress."""
    read, latest = _offsets(_field(source, "endOffset")), _offsets(_field(source, "latestOffset"))
    return None if read is None or latest is None else Backlog(read, latest)


def estimated_bytes(backlog: Backlog, options: Mapping[str, str]) -> int:
    """``estimatedTotalBytesBehindLatest``: the backlog in bytes as stored, from a sample of its records.

    ``options`` are those of the source. A few partitions are fetched from, so this takes some milliseconds.
    """
    largest = sorted(backlog.behind.items(), key=lambda one: -one[1])[:_SAMPLED_PARTITIONS]
    sizes = list(_sampled([one for one, behind in largest if behind], backlog, options))
    offsets = sum(count for count, _ in sizes)
    return round(sum(backlog.behind.values()) * sum(size for _, size in sizes) / offsets) if offsets else 0


def _sampled(
    partitions: list[TopicPartition], backlog: Backlog, options: Mapping[str, str]
) -> Iterator[tuple[int, int]]:
    """(offsets, bytes) of some batches behind the position of each partition."""
    from tidelog.client.cluster import Cluster
    from tidelog.client.errors import FetchOffsetOutOfRange
    from tidelog.client.fetching import FetchSettings, PartitionFetcher
    from tidelog.protocol.batch import iterate
    from tidelog.spark.client_settings import client_settings
    from tidelog.spark.options import Options

    settings = FetchSettings(max_bytes=_SAMPLE_BYTES, max_wait_ms=0)
    with Cluster(client_settings(Options(options))) as cluster:
        for topic, partition in partitions:
            start = backlog.read.get((topic, partition), 0)
            fetcher = PartitionFetcher(cluster, topic, partition, settings, cluster.patience())
            fetcher.ask(start)
            try:
                records = fetcher.take().records
            except FetchOffsetOutOfRange:  # deleted meanwhile
                continue
            headers = [header for _, header in iterate(records)]
            if headers:
                yield max(headers[-1].next_offset - start, 1), sum(header.size for header in headers)


class BacklogListener(StreamingQueryListener):
    """Reports the backlog of every query after each micro-batch: ``spark.streams.addListener`` takes it.

    ``tell`` gets the query's name, or its id if it has none, and a backlog. Without it a line is logged.
    """

    def __init__(self, tell: Callable[[str, Backlog], None] | None = None) -> None:
        self._tell = tell or _log

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing has been read yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        name = event.progress.name or str(event.progress.id)
        for backlog in backlogs(event.progress):
            self._tell(name, backlog)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing is new since the last report."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Its last report stays true."""


def _log(name: str, backlog: Backlog) -> None:
    listed = ", ".join(f"{key} {value}" for key, value in backlog.metrics.items())
    logger.info("the query %s: %s", name, listed)


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _offsets(text: Any) -> Mapping[TopicPartition, int] | None:
    try:
        return from_wire(json.loads(text) if isinstance(text, str) else text).offsets or None
    except (AttributeError, TypeError, ValueError):
        return None
