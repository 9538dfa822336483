"""Archives in Delta tables by a stream with a checkpoint.

Owns the stream, whose micro-batches Delta's own transaction numbers add once.
"""

from threading import Event
from typing import TYPE_CHECKING

from tidelog.spark.pipelines.archive import _UTC_DAY, PARTITION_COLUMNS, Archive, ArchiveReport
from tidelog.spark.pipelines.decoding import split
from tidelog.spark.pipelines.delta import DeltaTable
from tidelog.spark.pipelines.running import Progress, Tell, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def archive_stream(spark: "SparkSession", job: Archive, stop: Event | None, tell: Tell) -> ArchiveReport:
    tables = (_table(job, job.records), _table(job, job.undecodable))
    for table in tables:
        table.prepare(spark)
    before = [table.row_total(spark) for table in tables]
    source = job.topics.read_stream(spark, includeHeaders="true")
    checkpoint = f"{job.target}/checkpoint"
    writer = source.writeStream.foreachBatch(_Adder(job)).option("checkpointLocation", checkpoint)
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


def _table(job: Archive, path: str) -> DeltaTable:
    return DeltaTable(path, f"tidelog-archive-{job.target}/checkpoint-{path}")


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
