"""The figures of both sides, computed by Spark: how many records, and a checksum that does not depend on
their order.

Owns the queries. The checksum of a record covers offset, key, value, headers and timestamp; the sum over a
range is compared first, and single records only where sums differ. A null is not the same as no bytes, which
the hash function alone would not tell apart.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tidelog.spark.pipelines.source import Topics
from tidelog.spark.pipelines.stepping import read_ranges
from tidelog.spark.pipelines.tables import Place, Span, Table
from tidelog.spark.pipelines.verify.judging import Judged, Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_RANGES_DDL = (
    "topic string, topic_id string, partition int, span_start long, span_end long, low long, high long"
)

_HASHED = ("topic", "topic_id", "partition", "offset", "hash")

# Rows from before topic ids were recorded belong to the id that continued them.
_NAMED = """
select a.topic, coalesce(n.adopted_id, a.topic_id) as topic_id, a.partition, a.offset, a.hash
from {archived} a left join {adopted} n
  on n.topic = a.topic and n.partition = a.partition and a.topic_id = ''
"""

# The same rule as judging.part_of.
_PARTED = """
select a.topic, a.topic_id, a.partition, a.offset, a.hash, case
    when r.span_start is null or a.offset < r.span_start or a.offset >= r.span_end then 'stray'
    when a.offset < r.low then 'past' when a.offset < r.high then 'kept' else 'beyond' end as part
from {archived} a left join {ranges} r
  on r.topic = a.topic and r.topic_id = a.topic_id and r.partition = a.partition
"""

_SUMMARY = """
select topic, topic_id, partition, part, count(*) as records, sum(cast(hash as decimal(20, 0))) as checksum,
  count_if(offset = before) as duplicates, count_if(offset > before + 1) as gaps,
  coalesce(sum(greatest(offset - before - 1, 0)), 0) as missing, min(offset) as first, max(offset) as last
from (
  select *, lag(offset) over (partition by topic, topic_id, partition order by offset) as before
  from {parted}
) group by topic, topic_id, partition, part
"""

_DIFFERENCES = """
select coalesce(a.topic, t.topic) as topic, coalesce(a.partition, t.partition) as partition,
  coalesce(a.offset, t.offset) as offset,
  case when a.hash is null then 'missing' when t.hash is null then 'unknown' else 'differs' end as kind
from {archived} a full outer join {found} t
  on t.topic = a.topic and t.partition = a.partition and t.offset = a.offset
where a.hash is null or t.hash is null or a.hash <> t.hash
"""


def archived_rows(table: Table) -> "tuple[DataFrame, bool]":
    """topic, topic_id, partition, offset and hash of every record, undecodable ones included; and whether the
    values are covered: an archive may have been made without them.
    """
    records, undecodable = table.read(left=True), table.read_undecodable(left=True)
    has_value = "value" in records.columns
    rows = _hashed(records, has_value)
    return rows if undecodable is None else rows.unionByName(_hashed(undecodable, has_value)), has_value


def _hashed(rows: "DataFrame", has_value: bool) -> "DataFrame":
    from pyspark.sql import functions

    names = {name.lower(): name for name in rows.columns}
    with_id = f"coalesce({names['topicid']}, '')" if "topicid" in names else "''"
    values = "value is null, value, " if has_value else ""
    # With an own mark for no value: hashed alone, a header without one and the next key look like one header.
    marked = "struct(one.key, one.value is null as absent, one.value)"
    headers = f"transform(coalesce(headers, array()), one -> {marked})"
    covered = f"offset, key is null, key, {values}{headers}, unix_micros(timestamp)"
    return rows.select(
        functions.col("topic").cast("string").alias("topic"),
        functions.expr(with_id).alias("topic_id"),
        functions.col("partition").cast("int").alias("partition"),
        functions.col("offset").cast("long").alias("offset"),
        functions.expr(f"xxhash64({covered})").alias("hash"),
    )


def topic_rows(
    spark: "SparkSession", topics: Topics, ranges: Mapping[Place, Span], has_value: bool
) -> "DataFrame | None":
    """The same columns for the committed records of these ranges; None if all are empty."""
    wanted = {place: span for place, span in ranges.items() if span.size > 0}
    return _hashed(read_ranges(spark, topics, wanted), has_value) if wanted else None


def ranges_table(spark: "SparkSession", judged: Iterable[Judged]) -> "DataFrame":
    rows = [(*one.place, *one.span, *one.common) for one in judged]
    return spark.createDataFrame(rows, _RANGES_DDL)


def named(spark: "SparkSession", archived: "DataFrame", adopted: Iterable[Place]) -> "DataFrame":
    """With the ids of the places that took over rows without one."""
    from pyspark.sql import functions

    rows = [(place.topic, place.partition, place.topic_id) for place in adopted]
    table = spark.createDataFrame(rows, "topic string, partition int, adopted_id string")
    return spark.sql(_NAMED, archived=archived, adopted=functions.broadcast(table))


def parted(spark: "SparkSession", archived: "DataFrame", ranges: "DataFrame") -> "DataFrame":
    """With the part that each row belongs to."""
    from pyspark.sql import functions

    return spark.sql(_PARTED, archived=archived, ranges=functions.broadcast(ranges))


def summary(spark: "SparkSession", rows: "DataFrame") -> dict[tuple[Place, str], Part]:
    """For each place and part. ``rows``: with a column ``part``."""
    found = spark.sql(_SUMMARY, parted=rows).collect()
    return {
        (Place(row["topic"], row["topic_id"], row["partition"]), row["part"]): _part(row) for row in found
    }


def topic_summary(spark: "SparkSession", rows: "DataFrame") -> dict[tuple[str, int], Part]:
    found = summary(spark, rows.selectExpr(*_HASHED, "'topic' as part"))
    return {(place.topic, place.partition): part for (place, _), part in found.items()}


def _part(row: "Row") -> Part:
    return Part(
        row["records"], int(row["checksum"]), row["duplicates"], row["gaps"], row["missing"], row["first"],
        row["last"],
    )  # fmt: skip


def differences(spark: "SparkSession", archived: "DataFrame", found: "DataFrame") -> "DataFrame":
    """topic, partition, offset, kind: of rows that both sides should have."""
    return spark.sql(_DIFFERENCES, archived=archived, found=found)


def spans_of_rows(rows: "DataFrame") -> dict[Place, Span]:
    """What the rows themselves cover, for archives of an earlier layout that have no position."""
    from pyspark.sql import functions

    found = rows.groupBy("topic", "topic_id", "partition").agg(
        functions.min("offset"), functions.max("offset")
    )
    return {
        Place(topic, topic_id, partition): Span(first, last + 1)
        for topic, topic_id, partition, first, last in found.collect()
    }
