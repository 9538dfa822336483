"""The data source as Spark sees it: a name, a schema, readers and writers.

Everything else is in :mod:`tidelog.spark.reading` and :mod:`tidelog.spark.writing`, which are loaded on
demand, because Spark starts a Python process for each question.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from tidelog.spark.plainly import plainly

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )


class TidelogDataSource(DataSource):
    """``spark.read.format("tidelog")`` and its three relatives."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    @plainly
    def schema(self) -> StructType:
        from tidelog.spark.reading.columns import default_schema

        return default_schema(self.options)

    @plainly
    def reader(self, schema: StructType) -> "DataSourceReader":
        from tidelog.spark.reading import batch_reader

        return batch_reader(self.options, schema)

    @plainly
    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":  # noqa: N802
        from tidelog.spark.reading import stream_reader

        return stream_reader(self.options, schema)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        from tidelog.spark.writing import batch_writer

        return batch_writer(self.options, schema, overwrite)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> "DataSourceStreamWriter":  # noqa: N802
        from tidelog.spark.writing import stream_writer

        return stream_writer(self.options, schema, overwrite)
