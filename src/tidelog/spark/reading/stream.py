"""The reader behind ``spark.readStream``: micro-batches of offsets, within the limits.

A checkpoint holds the next offset of each partition and the ids of topics (:mod:`.positions`). Partitions
that appear later are read from their beginning. So is a topic that was deleted and created again, if
``failOnDataLoss`` is false; otherwise the query fails.
"""

import time
from collections.abc import Iterator
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
from tidelog.spark.plainly import plainly
from tidelog.spark.reading.columns import check_schema
from tidelog.spark.reading.limits import share
from tidelog.spark.reading.loss import tell_loss
from tidelog.spark.reading.planning import Offsets, Planner
from tidelog.spark.reading.positions import Position, Wire, from_wire, to_wire
from tidelog.spark.reading.ranges import TopicRange, as_tasks
from tidelog.spark.reading.settings import ReadSettings
from tidelog.spark.reading.task_entry import read_task

if TYPE_CHECKING:
    import pyarrow as pa


class TidelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, settings: ReadSettings, schema: StructType) -> None:
        check_schema(schema)
        self._settings = settings
        self._schema = schema
        self._cluster: Cluster | None = None
        self._target: Position | None = None  # of Trigger.AvailableNow: nothing beyond is read
        self._latest: Position | None = None  # as last seen
        self._last_batch_s: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cluster": None}  # tasks open connections of their own

    # -- which offsets -------------------------------------------------------------------

    @plainly
    def initialOffset(self) -> Wire:  # noqa: N802
        planner = self._planner()
        found = planner.partitions()
        return to_wire(Position(planner.start(found), planner.topic_ids(found)))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        settings = self._settings
        if settings.max_offsets_per_trigger is not None:
            return ReadMaxRows(settings.max_offsets_per_trigger)
        if settings.min_offsets_per_trigger is not None:
            return ReadMinRows(settings.min_offsets_per_trigger)
        return ReadAllAvailable()

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        # A topic that is missing is told when it is known whether it was there before.
        self._target = self._ends(self._planner(), tells=False)

    @plainly
    def latestOffset(self, start: Wire, limit: ReadLimit) -> Wire:  # noqa: N802
        planner = self._planner()
        # With a target, those that existed when the query began: later requests may find fewer, never more.
        found = self._ends(planner) if self._target is None else self._target
        begin, found = self._after_replacements(planner, self._position(start), found)
        self._latest = found
        end = self._after_losses(planner, begin.offsets, found.offsets)
        begin = self._with_fresh(planner, begin, end)
        if not isinstance(limit, ReadAllAvailable):
            if self._delays(begin.offsets, end):
                return start
            if isinstance(limit, ReadMaxRows):
                end = share(begin.offsets, end, limit.max_rows)
        return to_wire(begin.followed_by(end, found.topic_ids))

    def reportLatestOffset(self) -> Wire | None:  # noqa: N802
        """Shown in the query's progress, beside what was read: the difference is the backlog."""
        return None if self._latest is None else to_wire(Position(self._latest.offsets))

    @plainly
    def partitions(self, start: Wire, end: Wire) -> list[InputPartition]:
        begin, stop = self._position(start), self._position(end)
        begin = begin.without(begin.others_than(stop))  # told when the end was chosen
        planner = self._planner()
        replaced = planner.replaced(stop.topic_ids)
        for error in replaced.values():
            self._tell_loss(str(error), error)
        begin, stop = begin.without(list(replaced)), stop.without(list(replaced))
        begin = self._with_fresh(planner, begin, stop.offsets)
        ranges = [
            TopicRange(*one, begin.offsets[one], offset, stop.topic_ids.get(one[0], ""))
            for one, offset in sorted(stop.offsets.items())
        ]
        return as_tasks(ranges, self._settings)

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

    def _position(self, wire: Wire) -> Position:
        position = from_wire(wire)
        return position if self._settings.check_topic_ids else Position(position.offsets)

    def _ends(self, planner: Planner, *, tells: bool = True) -> Position:
        try:
            found = planner.partitions()
        except UnknownTopic as error:
            if tells:
                self._tell_loss(str(error).rstrip("."), error)
            found = planner.partitions(existing=True)
        ids = planner.topic_ids(found)
        return Position(planner.latest(found), ids)

    def _after_replacements(
        self, planner: Planner, begin: Position, end: Position
    ) -> tuple[Position, Position]:
        """Where to begin and end, after topics were deleted and created again."""
        others = begin.others_than(end)
        if not others:
            return begin, end
        replaced = planner.replaced({topic: begin.topic_ids[topic] for topic in others})
        for error in replaced.values():
            self._tell_loss(str(error), error, "at the beginning of the new topic")
        # The end may be that of a topic between the two, or come from a broker that knew an older one.
        end = self._ends(planner)
        if self._target is not None:
            self._target = end
        return begin.without(list(replaced)), end

    def _with_fresh(self, planner: Planner, begin: Position, end: Offsets) -> Position:
        """Partitions that did not exist when the query began: all their records are new."""
        fresh = [one for one in end if one not in begin.offsets]
        return begin.followed_by(planner.earliest(fresh), {}) if fresh else begin

    def _after_losses(self, planner: Planner, begin: Offsets, end: Offsets) -> Offsets:
        """The end of each partition; before its beginning only if records are lost that were read."""
        for one in begin.keys() - end.keys():
            name = f"{one[0]}-{one[1]}"
            self._tell_loss(f"{name}, which was read up to offset {begin[one]}, is not there any more")
        behind = [one for one, offset in begin.items() if end.get(one, offset) < offset]
        if not behind:
            return end
        # The ends may be older than the beginning: those of Trigger.AvailableNow are found first.
        now = planner.latest(behind)
        for one in behind:
            if now[one] < begin[one]:
                what = f"{one[0]}-{one[1]} ends at offset {now[one]}, and was read up to {begin[one]} already"
                self._tell_loss(what)
        return end | {one: min(now[one], begin[one]) for one in behind}

    def _tell_loss(self, what: str, error: Exception | None = None, then: str = "with what there is") -> None:
        tell_loss(what, self._settings.task.fail_on_data_loss, error, then)

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
