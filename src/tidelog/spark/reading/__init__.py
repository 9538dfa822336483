"""Topics to DataFrames: batch reads and streams.

======== ==================================================================================
columns  the columns, and which of them a query selects
settings the options
planning partitions and offsets, requested from the cluster by Spark's driver
ranges   ranges of offsets as tasks
batch    the reader of ``spark.read``; ``filters`` takes what Spark pushes down
stream   the reader of ``spark.readStream``; ``limits`` divides its micro-batches
tasks    what a task does with its range; ``loss`` reports missing records
batches  fetched bytes to record batches of Arrow; ``inflating`` opens compressed ones
======== ==================================================================================
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


def batch_reader(options: Mapping[str, str], schema: "StructType") -> "DataSourceReader":
    from tidelog.spark.reading.batch import TidelogReader
    from tidelog.spark.reading.settings import read_settings

    return TidelogReader(read_settings(options, streaming=False), schema)


def stream_reader(options: Mapping[str, str], schema: "StructType") -> "DataSourceStreamReader":
    from tidelog.spark.reading.settings import read_settings
    from tidelog.spark.reading.stream import TidelogStreamReader

    return TidelogStreamReader(read_settings(options, streaming=True), schema)
