"""The entry of a task: the decoder is loaded here, on the worker that runs it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.reading.ranges import TopicRange

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark.reading.settings import TaskSettings


def read_task(
    partition: InputPartition, schema: StructType, settings: "TaskSettings"
) -> "Iterator[pa.RecordBatch]":
    """The rows of one task. The decoder is loaded here: a driver that only plans never needs it."""
    if not isinstance(partition, TopicRange):  # what Spark makes of "no partitions"
        return iter(())
    from pyspark.sql.pandas.types import to_arrow_schema

    from tidelog.spark.reading.tasks import read_range

    return read_range(partition, to_arrow_schema(schema, timezone="UTC"), settings)
