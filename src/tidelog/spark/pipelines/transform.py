"""SQL over topics, continuously: from topics to a topic or a table, exactly once.

Owns what runs; the file format is in :mod:`tidelog.spark.pipelines.transform_file`. Every source is a view
with its topic's columns, its value decoded to columns if a schema is given. Values that do not match the
schema go to a table beside the checkpoint and are counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.decoding import DECODED, Decoding, Encoding, split
from tidelog.spark.pipelines.files import ParquetFiles
from tidelog.spark.pipelines.running import Tell, discard, run
from tidelog.spark.pipelines.source import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MODES = ("append", "update", "complete")


@dataclass(frozen=True, slots=True)
class Source:
    """Topics as a view of the SQL."""

    topics: Topics
    decoding: Decoding | None = None
    watermark: str = ""  # such as "10 minutes": how late a record may be, by its timestamp


@dataclass(frozen=True, slots=True)
class Output:
    """Where the rows go: a topic, with the other columns in its value, or a table."""

    topic: str = ""
    table: str = ""
    key: str = ""  # column whose text is the record's key
    mode: str = "append"
    options: Mapping[str, str] = field(default_factory=dict)  # of the sink
    encoding: Encoding | None = None  # of the value, instead of JSON

    def __post_init__(self) -> None:
        if bool(self.topic) == bool(self.table):
            raise OptionError("The output needs a topic or a table, and not both.")
        if self.mode not in MODES:
            raise OptionError(f"The output's mode is {self.mode!r}; allowed: {', '.join(MODES)}.")
        if self.table and self.mode != "append":
            raise OptionError("Rows can only be appended to a table; allowed: mode append.")
        if self.table and self.encoding is not None:
            raise OptionError("The output's format is for topics; a table has columns.")


@dataclass(frozen=True, slots=True)
class Transform:
    sources: Mapping[str, Source]
    sql: str
    output: Output
    checkpoint: str
    bootstrap: str
    every: str | None = None

    def undecodable(self, source: str) -> str:
        return f"{self.checkpoint}/undecodable/{source}"


@dataclass(frozen=True, slots=True)
class TransformReport:
    rows: int  # read
    undecodable: dict[str, int]  # by source, of all runs
    stopped: bool


def transform(
    spark: "SparkSession", job: Transform, *, stop: Event | None = None, tell: Tell = discard
) -> TransformReport:
    """Run the SQL over what is new since the last time, or continuously."""
    views = {name: _view(spark, source) for name, source in job.sources.items()}
    for name, view in views.items():
        view.createOrReplaceTempView(name)
    rows = spark.sql(job.sql)
    for path, checkpoint in _tables(job).items():
        ParquetFiles(spark, path, checkpoint).check()
    writers = [_writer(job, rows)]
    decoded = {name: source for name, source in job.sources.items() if source.decoding is not None}
    writers += [_set_apart(spark, job, name, source) for name, source in decoded.items()]
    outcome = run(*writers, every=job.every, stop=stop, tell=tell)
    tables = _tables(job)
    counts = {
        name: ParquetFiles(spark, path, tables[path]).row_total()
        for name, path in ((name, job.undecodable(name)) for name in decoded)
    }
    return TransformReport(outcome.rows, counts, outcome.stopped)


def _tables(job: Transform) -> dict[str, str]:
    """Directories of Parquet, and the checkpoints of the queries that fill them."""
    tables = {
        job.undecodable(name): f"{job.checkpoint}/undecodable-{name}"
        for name, source in job.sources.items()
        if source.decoding is not None
    }
    return tables | ({job.output.table: f"{job.checkpoint}/query"} if job.output.table else {})


def _view(spark: "SparkSession", source: Source) -> "DataFrame":
    records = source.topics.read_stream(spark, includeHeaders="true")
    if source.watermark:
        records = records.withWatermark("timestamp", source.watermark)
    if source.decoding is None:
        return records
    good, _ = split(source.decoding.apply(records))
    return good.select(f"{DECODED}.*", *(name for name in records.columns if name != "value"))


def _set_apart(spark: "SparkSession", job: Transform, name: str, source: Source) -> "DataStreamWriter":
    """A separate query for undecodable values: the SQL may drop or join rows, this must not."""
    if source.decoding is None:
        raise OptionError(f"The source {name} has nothing to decode.")
    _, broken = split(source.decoding.apply(source.topics.read_stream(spark, includeHeaders="true")))
    path = job.undecodable(name)
    checkpoint = _tables(job)[path]
    writer = broken.writeStream.foreachBatch(_Appender(path, checkpoint))
    return writer.option("checkpointLocation", checkpoint)


def _writer(job: Transform, rows: "DataFrame") -> "DataStreamWriter":
    checkpoint = f"{job.checkpoint}/query"
    if job.output.table:
        writer = rows.writeStream.foreachBatch(_Appender(job.output.table, checkpoint))
        return writer.option("checkpointLocation", checkpoint)
    writer = _as_records(job.output, rows).writeStream.format("tidelog").outputMode(job.output.mode)
    options = {
        "kafka.bootstrap.servers": job.bootstrap,
        "topic": job.output.topic,
        "checkpointLocation": checkpoint,
        **job.output.options,
    }
    return writer.options(**options)


def _as_records(output: Output, rows: "DataFrame") -> "DataFrame":
    """A column ``value`` of text or bytes is the value; otherwise all columns are, as JSON or encoded."""
    from pyspark.sql import functions

    if output.key and output.key not in rows.columns:
        raise OptionError(f"The output's key is {output.key!r}; there are {', '.join(rows.columns)}.")
    columns = [functions.col(output.key).cast("string").alias("key")] if output.key else []
    if "value" in rows.columns and output.encoding is None:
        kept: list[str] = [
            name for name in ("value", "headers", "timestamp", "partition") if name in rows.columns
        ]
        if not output.key and "key" in rows.columns:
            kept.append("key")
        return rows.select(*kept, *columns)
    together = functions.struct(*rows.columns)
    value = functions.to_json(together) if output.encoding is None else output.encoding.apply(together)
    return rows.select(value.alias("value"), *columns)


class _Appender:
    """Adds one micro-batch to a table; a class, because Spark Connect sends it to the server."""

    def __init__(self, path: str, checkpoint: str) -> None:
        self._path = path
        self._checkpoint = checkpoint

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        ParquetFiles(batch.sparkSession, self._path, self._checkpoint).add(batch, batch_id)
