"""The entry of a task: the decoder is loaded here, on the worker that runs it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.plainly import plainly_read
from tidelog.spark.reading.ranges import JoinedRanges, TopicRange

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.reading.settings import TaskSettings


def read_task(
    partition: InputPartition, schema: StructType, settings: "TaskSettings"
) -> "Iterator[pa.RecordBatch]":
    """The rows of one task. The decoder is loaded here: a driver that only plans never needs it."""
    if isinstance(partition, JoinedRanges):
        ranges = partition.ranges
    elif isinstance(partition, TopicRange):
        ranges = (partition,)
    else:  # what Spark makes of "no partitions"
        return iter(())
    from pyspark.sql.pandas.types import to_arrow_schema

    from tidelog.spark.reading.tasks import read_ranges

    return plainly_read(read_ranges(ranges, to_arrow_schema(schema, timezone="UTC"), settings))
