"""What a task does: read ranges of partitions, mostly one, as record batches of Arrow.

Owns what happens if the log does not hold what was planned: records that were deleted meanwhile, a deleted
topic. ``failOnDataLoss`` decides between an error that says what is lost and continuing without it.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from tidelog.client.cluster import Cluster
from tidelog.client.errors import FetchOffsetOutOfRange, TopicReplaced, UnknownTopic
from tidelog.client.fetching import PartitionFetcher
from tidelog.client.messages import EARLIEST, LATEST
from tidelog.spark.reading.batches import BatchDecoder
from tidelog.spark.reading.loss import tell_loss
from tidelog.spark.reading.ranges import TopicRange
from tidelog.spark.reading.settings import TaskSettings

ROWS_GATHERED = 10_000


def read_ranges(
    ranges: Sequence[TopicRange], schema: pa.Schema, settings: TaskSettings
) -> Iterator[pa.RecordBatch]:
    """All rows of the ranges; the connections are closed when the reader is done or stops early."""
    batches = (batch for _, batch in read_each(ranges, schema, settings))
    yield from _gathered(batches) if len(ranges) > 1 else batches


def read_each(
    ranges: Sequence[TopicRange], schema: pa.Schema, settings: TaskSettings
) -> Iterator[tuple[TopicRange, pa.RecordBatch]]:
    """The rows of the ranges, one range after another, each batch with its range."""
    with Cluster(settings.client, settings.patience_ms) as cluster:
        if len(ranges) > 1:
            # One request for all leaders instead of one for each range.
            cluster.known_topics(list(dict.fromkeys(one.topic for one in ranges)))
        for one in ranges:
            for batch in _read_range(cluster, one, schema, settings):
                yield one, batch


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches as larger ones: each costs the JVM as much as some hundred rows."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(one.num_rows for one in pending) >= ROWS_GATHERED:
            yield from _one(pending)
            pending = []
    yield from _one(pending)


def _one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    found: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found


def _read_range(
    cluster: Cluster, wanted: TopicRange, schema: pa.Schema, settings: TaskSettings
) -> Iterator[pa.RecordBatch]:
    start = wanted.start_offset
    while start < wanted.end_offset:
        rest = _Rest(cluster, wanted, start, schema, settings)
        try:
            yield from rest.batches()
            return
        except FetchOffsetOutOfRange as error:
            start = _after_loss(cluster, wanted, rest.position, settings, error)
        except (TopicReplaced, UnknownTopic) as error:
            if isinstance(error, TopicReplaced) and settings.fail_on_replaced:
                raise
            what = str(error).rstrip(".")
            tell_loss(f"{what}; what was to be read: {wanted!r}", settings.fail_on_data_loss, error)
            return


class _Rest:
    """The range from some offset on."""

    def __init__(
        self, cluster: Cluster, wanted: TopicRange, start: int, schema: pa.Schema, settings: TaskSettings
    ) -> None:
        self.position = start  # everything before it has been returned
        self._end = wanted.end_offset
        self._max_bytes = settings.fetch.max_bytes
        self._fetcher = PartitionFetcher(
            cluster, wanted.topic, wanted.partition, settings.fetch, cluster.patience(), wanted.topic_id
        )
        self._decoder = BatchDecoder(
            schema, wanted.topic, wanted.partition, start, wanted.end_offset, settings.fetch.check_crcs
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        self._fetcher.ask(self.position)
        while True:
            response = self._fetcher.take()
            following = self._decoder.outline(response)
            if following is None:
                if response.records:
                    # A broker that cannot send a part of a batch larger than allowed sends nothing complete.
                    self._max_bytes *= 2
                self._fetcher.wait("no whole batch came")
                self._fetcher.ask(self.position, self._max_bytes)
                continue
            following = max(following, self.position)
            if following < self._end:
                # In flight while the current records are decoded and returned.
                self._fetcher.ask(following)
            yield from self._decoder.decode()
            self.position = following
            if following >= self._end:
                return


def _after_loss(
    cluster: Cluster, wanted: TopicRange, position: int, settings: TaskSettings, error: FetchOffsetOutOfRange
) -> int:
    """Where to continue after lost records."""
    partition = (wanted.topic, wanted.partition)
    earliest = cluster.list_offsets({partition: EARLIEST})[partition]
    latest = cluster.list_offsets({partition: LATEST})[partition]
    lost = f"{wanted.topic}-{wanted.partition} now has offsets {earliest} to {latest} (exclusive)"
    what = f"{error}: {lost}, and {wanted!r} was to be read"
    tell_loss(what, settings.fail_on_data_loss, error)
    if position < earliest:
        return min(earliest, wanted.end_offset)
    return wanted.end_offset  # the log ends before it: there is nothing to come
