"""Topics to tables: every committed record once, partitioned by topic and date, resumed from where it
stopped.

Owns the shape of an archive and what is counted. Runs over what is there now, or goes on until it is told to
stop.

====================== =========================================================================
``TARGET/records``     key, value, headers, partition, offset, timestamp, timestampType; the value decoded
                       beside it where a schema is given; directories ``topic=…/date=…``
``TARGET/undecodable`` the same without the decoded value: what the schema does not fit
``TARGET/checkpoint``  how far the archive is; together with the tables, never without
====================== =========================================================================

The offsets of a micro-batch are noted in the checkpoint before it is read, so a batch that is run again has
the same records, and :mod:`tidelog.spark.pipelines.files` (or Delta's own transaction numbers) adds them
once.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Protocol

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.decoding import Decoding, split
from tidelog.spark.pipelines.delta import DeltaTable, misfits_explained
from tidelog.spark.pipelines.files import ParquetFiles
from tidelog.spark.pipelines.running import Progress, Tell, run, tell_nobody
from tidelog.spark.pipelines.source import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITION_COLUMNS = ("topic", "date")
TABLE_FORMATS = ("parquet", "delta")

# Not to_date(): that would depend on the session's time zone, and the same record must always go to the same
# place.
_UTC_DAY = "date_from_unix_date(cast(floor(unix_seconds(timestamp) / 86400) as int))"


@dataclass(frozen=True, slots=True)
class Archive:
    """What is archived, and where to."""

    topics: Topics
    target: str
    decoding: Decoding | None = None
    keeps_value: bool = True  # the original bytes, beside what was decoded from them
    table_format: str = "parquet"
    merge_bytes: int = 128 << 20  # target size of files; 0: small files are not merged
    every: str | None = None  # such as "10 seconds"; None: what is there now, then stop

    def __post_init__(self) -> None:
        if self.table_format not in TABLE_FORMATS:
            raise OptionError(
                f"The table format is {self.table_format!r}; allowed: {', '.join(TABLE_FORMATS)}."
            )

    @property
    def records(self) -> str:
        return f"{self.target}/records"

    @property
    def undecodable(self) -> str:
        return f"{self.target}/undecodable"

    @property
    def checkpoint(self) -> str:
        return f"{self.target}/checkpoint"


@dataclass(frozen=True, slots=True)
class ArchiveReport:
    """The result of this run; ``total`` counts all runs."""

    records: int
    undecodable: int
    total: int
    files: int
    merged_files: int
    stopped: bool  # before its end, on request
    target: str = field(default="")


def archive(
    spark: "SparkSession", job: Archive, *, stop: Event | None = None, tell: Tell = tell_nobody
) -> ArchiveReport:
    """Bring the archive up to date."""
    with misfits_explained(spark) if job.table_format == "delta" else nullcontext():
        return _archive(spark, job, stop, tell)


def _archive(spark: "SparkSession", job: Archive, stop: Event | None, tell: Tell) -> ArchiveReport:
    tables = (_table(job, job.records), _table(job, job.undecodable))
    for table in tables:
        table.prepare(spark)
    before = [table.row_total(spark) for table in tables]
    source = job.topics.read_stream(spark, includeHeaders="true")
    writer = source.writeStream.foreachBatch(_Adder(job)).option("checkpointLocation", job.checkpoint)
    outcome = run(writer, every=job.every, stop=stop, tell=tell)
    merged = 0
    if job.merge_bytes and not outcome.stopped:
        tell(Progress(outcome.rows, 0.0, 0, "merging small files"))
        merged = sum(table.merge(spark, target_bytes=job.merge_bytes) for table in tables)
    after = [table.row_total(spark) for table in tables]
    return ArchiveReport(
        records=after[0] - before[0],
        undecodable=after[1] - before[1],
        total=sum(after),
        files=tables[0].file_total(spark),
        merged_files=merged,
        stopped=outcome.stopped,
        target=job.target,
    )


def read_archive(spark: "SparkSession", target: str) -> "DataFrame":
    """The records of an archive in any format."""
    records = ParquetFiles(f"{target}/records")
    if records.is_delta():
        return spark.read.format("delta").load(records.path)
    records.finish_merges()
    return spark.read.parquet(records.path)


class Table(Protocol):
    """What both formats can do: a batch is added once, however often it is run."""

    def prepare(self, spark: "SparkSession") -> None: ...

    def add(self, rows: "DataFrame", batch_id: int, partition_by: Iterable[str]) -> object: ...

    def row_total(self, spark: "SparkSession") -> int: ...

    def file_total(self, spark: "SparkSession") -> int: ...

    def merge(self, spark: "SparkSession", *, target_bytes: int) -> int: ...


def _table(job: Archive, path: str) -> Table:
    if job.table_format == "delta":
        return DeltaTable(path, f"tidelog-archive-{job.checkpoint}-{path}")
    return ParquetFiles(path)


class _Adder:
    """Adds one micro-batch to the tables; a class, because Spark Connect sends it to the server."""

    def __init__(self, job: Archive) -> None:
        self._job = job

    def __call__(self, batch: "DataFrame", batch_id: int) -> None:
        from pyspark.sql import functions

        dated = batch.withColumn("date", functions.expr(_UTC_DAY))
        if self._job.decoding is None:
            self._add(dated, self._job.records, batch_id)
            return
        decoded = self._job.decoding.apply(dated).persist()
        try:
            good, broken = split(decoded)
            self._add(broken, self._job.undecodable, batch_id)
            self._add(good if self._job.keeps_value else good.drop("value"), self._job.records, batch_id)
        finally:
            decoded.unpersist()

    def _add(self, rows: "DataFrame", path: str, batch_id: int) -> None:
        _table(self._job, path).add(rows, batch_id, PARTITION_COLUMNS)
