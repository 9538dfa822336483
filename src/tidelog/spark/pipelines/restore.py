"""Tables back to topics: the records of an archive, unchanged and in order.

Owns where records go: to the topic and partition they came from, or to another topic, by key. The records of
each file are written in a transaction of their own and all are committed at the end, so a failed restore
leaves nothing that ``read_committed`` readers would see. Missing topics are created first
(:mod:`tidelog.spark.pipelines.restore_targets`).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.client.cluster import Cluster
from tidelog.spark.client_settings import client_settings
from tidelog.spark.options import OptionError, Options
from tidelog.spark.pipelines import restore_targets
from tidelog.spark.pipelines.restore_targets import NewTopics, Prepared, Wanted
from tidelog.spark.pipelines.running import Progress, Tell, discard
from tidelog.spark.pipelines.tables.opening import open_existing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


@dataclass(frozen=True, slots=True)
class Restore:
    """Which records of an archive go where."""

    source: str
    bootstrap: str
    topic: str | None = None  # another topic for all of them; None: each to its own
    where: str = ""  # a condition in SQL, such as "date >= '2026-05-01'"
    keeps_partitions: bool = True  # False: partitions by key, for a topic with another number of them
    exactly_once: bool = True
    options: Mapping[str, str] = field(default_factory=dict)  # of the sink: kafka.* and others
    table_options: Mapping[str, str] = field(default_factory=dict)  # of the archive's table format
    new_topics: NewTopics = field(default_factory=NewTopics)


@dataclass(frozen=True, slots=True)
class RestoreReport:
    records: int
    topics: list[str]
    created: list[str] = field(default_factory=list)  # those of them that did not exist
    kept: list[str] = field(default_factory=list)  # those of these that got retention.ms=-1


def restore(spark: "SparkSession", job: Restore, *, tell: Tell = discard) -> RestoreReport:
    """Write the records; raises if the archive has none."""
    rows = _chosen(spark, job)
    found = _by_topic(rows)
    _check(job, found)
    total = sum(row["records"] for row in found)
    tell(Progress(0, 0.0, 0, f"of {total} records"))
    archived = {str(row["topic"]): Wanted(row["last"] + 1, row["oldest_ms"]) for row in found}
    prepared = _prepare(job, archived)
    _write(job, rows)
    tell(Progress(total, 0.0, 0, f"of {total} records"))
    topics = [job.topic] if job.topic is not None else sorted(str(row["topic"]) for row in found)
    return RestoreReport(total, topics, prepared.created, prepared.kept)


def _by_topic(rows: "DataFrame") -> "list[Row]":
    """Of each topic: its records, its last partition, its ids, how many records lack their values, and its
    oldest time. Records without a time have -1.
    """
    from pyspark.sql import functions

    ids = functions.col("topicId") if "topicId" in rows.columns else functions.lit(None).cast("string")
    is_dropped = "value is null and decoded is not null" if "decoded" in rows.columns else "false"
    return (
        rows.groupBy("topic")
        .agg(
            functions.count("*").alias("records"),
            functions.max("partition").alias("last"),
            functions.array_sort(functions.collect_set(ids)).alias("ids"),
            functions.expr(f"count_if({is_dropped})").alias("dropped"),
            functions.expr("min(nullif(unix_millis(timestamp), -1))").alias("oldest_ms"),
        )
        .collect()
    )


def _check(job: Restore, found: "list[Row]") -> None:
    if not found:
        raise OptionError(
            f"The archive {job.source} has no records{' where ' + job.where if job.where else ''}."
        )
    if dropped := sum(row["dropped"] for row in found):
        raise OptionError(
            f"The archive {job.source} has {dropped} records without their original values, which would be "
            "restored as empty ones: leave them out with --where, or write the decoded column yourself."
        )
    for row in found:
        # Both have records at the same offsets, which would be mixed.
        if len(row["ids"]) > 1:
            raise OptionError(
                f"The archive {job.source} has records of several topics that were called {row['topic']}: "
                f"restore one after the other, with --where \"topicId = '…'\" and each of the ids "
                f"{', '.join(row['ids'])}."
            )


def _write(job: Restore, rows: "DataFrame") -> None:
    # One task for each partition of a topic, to keep the order.
    ordered = rows.repartition(max(_partitions(rows), 1), "topic", "partition").sortWithinPartitions(
        "topic", "partition", "offset"
    )
    columns = ["key", "value", "headers", "timestamp", "topic"]
    if job.keeps_partitions:
        columns.append("partition")
    options = {
        "kafka.bootstrap.servers": job.bootstrap,
        "deliveryGuarantee": "exactly-once" if job.exactly_once else "at-least-once",
        **job.options,
    }
    if job.topic is not None:
        options["topic"] = job.topic
    ordered.select(*columns).write.format("tidelog").mode("append").options(**options).save()


def _prepare(job: Restore, archived: Mapping[str, Wanted]) -> Prepared:
    """``archived``: what the archive has of each topic."""
    wanted = archived
    if job.topic is not None:
        ages = [one.oldest_ms for one in archived.values() if one.oldest_ms is not None]
        partitions = max(one.partitions for one in archived.values())
        wanted = {job.topic: Wanted(partitions, min(ages, default=None))}
    options = Options({"kafka.bootstrap.servers": job.bootstrap, **job.options})
    now_ms = time.time_ns() // 1_000_000
    with Cluster(client_settings(options)) as cluster:
        return restore_targets.prepare(
            cluster, wanted, job.new_topics, keeps_partitions=job.keeps_partitions, now_ms=now_ms
        )


def _chosen(spark: "SparkSession", job: Restore) -> "DataFrame":
    table = open_existing(spark, job.source, job.table_options)
    rows = table.read()
    if "value" not in rows.columns:
        raise OptionError(
            f"The archive {job.source} was made without the values as they were, so they cannot be restored; "
            "archive with them, or write the decoded column yourself."
        )
    undecodable = table.read_undecodable()
    if undecodable is not None:
        rows = rows.unionByName(undecodable, allowMissingColumns=True)
    if job.where:
        rows = rows.where(job.where)
    return rows


def _partitions(rows: "DataFrame") -> int:
    return rows.select("topic", "partition").distinct().count()
