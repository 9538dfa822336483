"""The reader behind ``spark.readStream``: micro-batches of offsets, within the limits.

Offsets have the form ``{"topic": {"0": 23, "1": 7}}``, each the next one to read, as in Spark's own source
and its checkpoints. Partitions that appear later are read from their beginning.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tidelog.client.cluster import Cluster
from tidelog.client.errors import UnknownTopic
from tidelog.client.messages import TopicPartition
from tidelog.spark.reading.columns import check_schema
from tidelog.spark.reading.limits import share
from tidelog.spark.reading.loss import tell_loss
from tidelog.spark.reading.planning import Offsets, Planner
from tidelog.spark.reading.ranges import TopicRange, split
from tidelog.spark.reading.settings import ReadSettings
from tidelog.spark.reading.task_entry import read_task

if TYPE_CHECKING:
    import pyarrow as pa

Wire = dict[str, dict[str, int]]


def to_wire(offsets: Mapping[TopicPartition, int]) -> Wire:
    wire: Wire = {}
    for (topic, partition), offset in sorted(offsets.items()):
        wire.setdefault(topic, {})[str(partition)] = offset
    return wire


def from_wire(wire: Mapping[str, Mapping[str, int]] | None) -> Offsets:
    return {
        (topic, int(partition)): int(offset)
        for topic, partitions in (wire or {}).items()
        for partition, offset in partitions.items()
    }


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, settings: ReadSettings, schema: StructType) -> None:
        check_schema(schema)
        self._settings = settings
        self._schema = schema
        self._cluster: Cluster | None = None
        self._target: Offsets | None = None  # of Trigger.AvailableNow: nothing beyond is read
        self._latest: Offsets | None = None  # as last seen
        self._last_batch_s: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cluster": None}  # tasks open connections of their own

    # -- which offsets -------------------------------------------------------------------

    def initialOffset(self) -> Wire:  # noqa: N802
        planner = self._planner()
        return to_wire(planner.start(planner.partitions()))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        settings = self._settings
        if settings.max_offsets_per_trigger is not None:
            return ReadMaxRows(settings.max_offsets_per_trigger)
        if settings.min_offsets_per_trigger is not None:
            return ReadMinRows(settings.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        planner = self._planner()
        self._target = planner.latest(self._there(planner))

    def latestOffset(self, start: Wire, limit: ReadLimit) -> Wire:  # noqa: N802
        begin = from_wire(start)
        planner = self._planner()
        if self._target is None:
            end = self._latest = planner.latest(self._there(planner))
        else:
            # Those that existed when the query began: a second request may find fewer, never more.
            end = self._latest = self._target
        self._check_shrunk(begin, end)
        fresh = [one for one in end if one not in begin]
        if fresh:
            begin |= self._begin_fresh(planner, fresh)
        if isinstance(limit, ReadAllAvailable):
            return to_wire(begin | end)
        if self._delays(begin, end):
            return start
        if isinstance(limit, ReadMaxRows):
            end = share(begin, end, limit.max_rows)
        return to_wire(begin | end)

    def reportLatestOffset(self) -> Wire | None:  # noqa: N802
        """Shown in the query's progress, beside what was read: the difference is the backlog."""
        return None if self._latest is None else to_wire(self._latest)

    def partitions(self, start: Wire, end: Wire) -> list[InputPartition]:
        begin, stop = from_wire(start), from_wire(end)
        fresh = [one for one in stop if one not in begin]
        if fresh:
            begin |= self._begin_fresh(self._planner(), fresh)
        ranges = [TopicRange(*one, begin[one], stop[one]) for one in sorted(stop)]
        settings = self._settings
        return list(split(ranges, settings.min_partitions, settings.max_records_per_partition))

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(partition, self._schema, self._settings.task)

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    # -- what was found ------------------------------------------------------------------

    def _planner(self) -> Planner:
        if self._cluster is None:
            task = self._settings.task
            self._cluster = Cluster(task.client, task.patience_ms)
        return Planner(self._cluster, self._settings)

    def _there(self, planner: Planner) -> list[TopicPartition]:
        try:
            return planner.partitions()
        except UnknownTopic as error:
            self._tell_loss(str(error).rstrip("."), error)
            return []

    def _begin_fresh(self, planner: Planner, fresh: list[TopicPartition]) -> Offsets:
        """Partitions that did not exist when the query began: all their records are new."""
        return planner.earliest(fresh)

    def _check_shrunk(self, begin: Offsets, end: Offsets) -> None:
        for one, offset in begin.items():
            name = f"{one[0]}-{one[1]}"
            if one not in end:
                self._tell_loss(f"{name}, which was read up to offset {offset}, is not there any more")
            elif end[one] < offset and self._target is None:
                self._tell_loss(f"{name} ends at offset {end[one]}, and was read up to {offset} already")

    def _tell_loss(self, what: str, error: Exception | None = None) -> None:
        tell_loss(what, self._settings.task.fail_on_data_loss, error)

    def _delays(self, begin: Offsets, end: Offsets) -> bool:
        """Whether to wait for more, for minOffsetsPerTrigger and maxTriggerDelay."""
        least = self._settings.min_offsets_per_trigger
        if least is None or self._target is not None:  # what is there now is all that will ever be read
            return False
        now = time.monotonic()
        new = sum(max(offset - begin.get(one, 0), 0) for one, offset in end.items())
        waited_ms = None if self._last_batch_s is None else (now - self._last_batch_s) * 1000
        if new >= least or waited_ms is None or waited_ms >= self._settings.max_trigger_delay_ms:
            self._last_batch_s = now
            return False
        return True
