"""The reader behind ``spark.read``: offsets are fixed when the query is planned."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tidelog.client.cluster import Cluster
from tidelog.client.errors import BrokerTooOld
from tidelog.client.messages import TopicPartition
from tidelog.spark.options import OptionError
from tidelog.spark.plainly import plainly
from tidelog.spark.reading.columns import check_schema
from tidelog.spark.reading.filters import Pushed
from tidelog.spark.reading.loss import tell_loss
from tidelog.spark.reading.planning import Offsets, Planner
from tidelog.spark.reading.ranges import TopicRange, as_tasks
from tidelog.spark.reading.settings import ReadSettings
from tidelog.spark.reading.task_entry import read_task

if TYPE_CHECKING:
    import pyarrow as pa


class _PushFilters:
    """``pushFilters`` of a reader, in a form that works whether Spark pushes filters down or not.

    While ``spark.sql.python.filterPushdown.enabled`` is false, its default, Spark refuses a reader that
    overrides the method, which it detects by ``__func__``; if the setting is true, Spark just calls it.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, pushed: Pushed) -> None:
        self._pushed = pushed

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._pushed.take(filters)


class TidelogReader(DataSourceReader):
    def __init__(self, settings: ReadSettings, schema: StructType) -> None:
        check_schema(schema)
        self._settings = settings
        self._schema = schema
        self._pushed = Pushed()

    @property
    def pushFilters(self) -> Any:  # noqa: N802
        return _PushFilters(self._pushed)

    @plainly
    def partitions(self) -> list[InputPartition]:
        settings = self._settings
        with Cluster(settings.task.client, settings.task.patience_ms) as cluster:
            planner = Planner(cluster, settings)
            found = planner.partitions()
            self._check_topic_ids(planner, found)
            start, end = planner.start(found), planner.end(found)
            self._check(planner, found, start, end)
            self._narrow(planner, start, end)
            ids = planner.topic_ids(found)
        ranges = [
            TopicRange(*one, start[one], end[one], ids.get(one[0], ""))
            for one in found
            if self._pushed.allows(*one)
        ]
        return as_tasks(ranges, settings)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        return read_task(partition, self._schema, self._settings.task)

    def _check_topic_ids(self, planner: Planner, found: list[TopicPartition]) -> None:
        """What option ``topicIds`` requires, whatever ``failOnDataLoss`` says."""
        expected = self._settings.topic_ids
        if not expected:
            return
        if unread := sorted(set(expected) - {topic for topic, _ in found}):
            raise OptionError(f"Option topicIds names {', '.join(unread)}, which is not read.")
        reported = planner.topic_ids(found)
        if unknown := sorted(set(expected) - set(reported)):
            raise BrokerTooOld(
                f"The brokers report no id of {', '.join(unknown)}, and option topicIds needs it: "
                "Kafka does since version 2.8."
            )
        for error in planner.replaced(expected).values():
            raise error

    def _check(self, planner: Planner, found: list[TopicPartition], start: Offsets, end: Offsets) -> None:
        """Offsets that a user named must exist, or a task would wait for ever."""
        named = self._settings.start.each is not None or self._settings.end.each is not None
        if not named:
            return
        earliest, latest = planner.earliest(found), planner.latest(found)
        for one in found:
            name = f"{one[0]}-{one[1]}"
            if start[one] < earliest[one] or max(start[one], end[one]) > latest[one]:
                self._check_transactions(planner, one, max(start[one], end[one]), latest[one])
                what = (
                    f"{name} has offsets {earliest[one]} to {latest[one]} (exclusive), "
                    f"and [{start[one]}, {end[one]}) was to be read"
                )
                tell_loss(what, self._settings.task.fail_on_data_loss)
                start[one] = min(max(start[one], earliest[one]), latest[one])
                end[one] = max(min(end[one], latest[one]), start[one])
            elif start[one] > end[one]:
                raise OptionError(
                    f"{self._settings.start.option} begins {name} at {start[one]}, "
                    f"past its end by {self._settings.end.option}, {end[one]}."
                )

    def _check_transactions(self, planner: Planner, one: TopicPartition, end: int, stable: int) -> None:
        """Records of an open transaction are not lost, only not readable yet."""
        if self._settings.task.fetch.read_committed and stable < end <= planner.written([one])[one]:
            raise OptionError(
                f"An open transaction holds back {one[0]}-{one[1]}, which read_committed reads up to offset "
                f"{stable}, and not to {end}: read it when the transaction has ended."
            )

    def _narrow(self, planner: Planner, start: Offsets, end: Offsets) -> None:
        """Apply the filters."""
        pushed = self._pushed
        since: Offsets = {}
        if pushed.since_ms is not None:
            since = planner.younger_than([one for one in start if pushed.allows(*one)], pushed.since_ms)
        for one in start:
            start[one] = max(start[one], since.get(one, 0), pushed.start_offset or 0)
            if pushed.end_offset is not None:
                end[one] = min(end[one], pushed.end_offset)
