"""Records that are archived as they are go from the brokers to Parquet files without becoming Spark's rows.

Owns when that is possible, and the job of Spark whose tasks do it
(:mod:`tidelog.spark.pipelines.tables.direct_parts`). Everything else is written by Spark
(:mod:`tidelog.spark.pipelines.tables.staging`): decoded values, other file systems, encrypted files.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.spark.pipelines.tables import PositionMoved, Raw
from tidelog.spark.pipelines.tables.filesystem import LocalFiles, files_at
from tidelog.spark.plainly import plainly

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tidelog.spark.pipelines.tables.direct_parts import Layout, Part
    from tidelog.spark.reading.ranges import JoinedRanges, TopicRange
    from tidelog.spark.reading.settings import TaskSettings

_CODEC = "spark.sql.parquet.compression.codec"
_CODECS = {
    "none": "none", "uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd",
    "brotli": "brotli", "lz4_raw": "lz4",
}  # fmt: skip
# Settings with which Spark's writer does what ours does not.
_SPARK_ONLY = ("parquet.crypto.factory.class", "spark.sql.files.maxRecordsPerFile")


@dataclass(frozen=True, slots=True)
class DirectWrite:
    """Files to be written below a directory of a disk that all executors have."""

    spark: "SparkSession"
    raw: Raw
    directory: Path
    layout: "Layout"

    def run(self) -> "list[Part] | None":
        """None, and nothing is left, if Spark has to sort the records by time first."""
        from tidelog.spark.pipelines.tables.direct_parts import moved_up

        tasks, settings = _tasks(self.raw.options)
        if not tasks:
            return []
        self.directory.mkdir(parents=True, exist_ok=True)
        job = _Job(tasks, settings, dict(self.raw.topic_ids), str(self.directory), self.layout)
        written = self._written(job)
        parts = [part for one in written if one is not None for part in one]
        is_scattered = None in written
        try:
            moved = moved_up(self.directory, [] if is_scattered else parts)
        except FileNotFoundError:
            raise self._deleted() from None
        return None if is_scattered else moved

    def _written(self, job: "_Job") -> "list[list[Part] | None]":
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        numbers = self.spark.sparkContext.parallelize(range(len(job.tasks)), len(job.tasks))
        try:
            return numbers.map(partial(_write, job)).collect()
        except (PySparkException, Py4JError) as failure:
            if not self.directory.exists() or FileNotFoundError.__name__ in str(failure):
                raise self._deleted() from failure
            raise

    def _deleted(self) -> PositionMoved:
        """Staged files may vanish at any time: the step is done again."""
        return PositionMoved(f"What a step wrote to {self.directory} was deleted; run the pipeline again.")


@dataclass(frozen=True, slots=True)
class _Job:
    """What all tasks need; picklable."""

    tasks: "list[JoinedRanges | TopicRange]"
    settings: "TaskSettings"
    ids: dict[str, str]
    directory: str
    layout: "Layout"


def direct_write(
    spark: "SparkSession", raw: Raw | None, path: str, schema: "pa.Schema", **layout: Any
) -> DirectWrite | None:
    """None where only Spark can write. ``schema`` is that of the files."""
    codec = _codec(spark) if raw is not None else None
    if raw is None or codec is None:
        return None
    files = files_at(spark, path)
    if not isinstance(files, LocalFiles):
        return None
    from tidelog.spark.pipelines.tables.direct_parts import Layout

    chosen = Layout(schema, codec=codec, file_bytes=raw.file_bytes)
    return DirectWrite(spark, raw, files.root, replace(chosen, **layout))


def _codec(spark: "SparkSession") -> str | None:
    """None if Spark has to write: of a client of Spark Connect, only the server may reach the brokers."""
    if not hasattr(spark, "_jsparkSession"):
        return None
    session: Any = spark._jsparkSession
    hadoop = session.sessionState().newHadoopConf()
    if any(hadoop.get(name) not in (None, "", "0") for name in _SPARK_ONLY):
        return None
    return _CODECS.get(str(spark.conf.get(_CODEC, "snappy")).lower())


def _tasks(options: Mapping[str, str]) -> "tuple[list[JoinedRanges | TopicRange], TaskSettings]":
    """As the source plans a query, in this process."""
    from tidelog.spark.reading.batch import TidelogReader
    from tidelog.spark.reading.columns import default_schema
    from tidelog.spark.reading.ranges import JoinedRanges, TopicRange
    from tidelog.spark.reading.settings import read_settings

    settings = read_settings(options, streaming=False)
    planned = TidelogReader(settings, default_schema(options)).partitions()
    return [one for one in planned if isinstance(one, JoinedRanges | TopicRange)], settings.task


@plainly
def _write(job: _Job, number: int) -> "list[Part] | None":
    """In a worker. None: the records are in no order."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructField, StructType

    from tidelog.spark.pipelines.tables.direct_parts import FETCHED, Scattered, write_task
    from tidelog.spark.reading.columns import COLUMNS

    fetched = StructType([StructField(name, COLUMNS[name]) for name in FETCHED])
    schema = to_arrow_schema(fetched, timezone="UTC")
    try:
        return write_task(job.tasks[number], number, job.settings, job.ids, job.directory, job.layout, schema)
    except Scattered:
        return None
