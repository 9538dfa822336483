"""Parquet files that Spark writes and a table takes in afterwards.

Owns how Spark writes them: in one directory per attempt, with timestamps that other readers understand, and
split so that each file belongs to one partition of the table. Knows no table format.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A file system of Hadoop has its own name for the stores that other programs call s3 and gs.
_HADOOP_SCHEMES = {"s3://": "s3a://", "s3n://": "s3a://"}

_SETTINGS = {
    # INT96, Spark's default for long, is not allowed in Iceberg or Delta.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # The number of files a task may have open before Spark sorts its rows by directory first, which costs
    # more than writing them: a task has one topic, and its rows are of a few days.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
}

# A file that no commit names may belong to a step that is running. Expiry leaves younger ones alone.
UNCOMMITTED_MS = 3_600_000


class Written(NamedTuple):
    """A file that no reader sees until a commit names it."""

    path: str  # As the table's metadata will name it.
    rows: int
    bytes: int


def new_attempt() -> int:
    """A name for one attempt to add rows. Delta stores it as a signed number of 64 bits; 0 means none."""
    return secrets.randbits(62) + 1


def attempt_name(attempt: int) -> str:
    return f"step-{attempt:016x}"


def write_parquet(rows: "DataFrame", path: str, partition_by: Sequence[str]) -> None:
    """Spark's own commit protocol: files appear when all tasks have ended."""
    with _settings(rows.sparkSession, _SETTINGS):
        writer = rows.write.mode("error").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.partitionBy(*partition_by).parquet(for_spark(path))


def read_parquet(spark: "SparkSession", schema: pa.Schema, paths: Sequence[str], **options: str) -> "DataFrame":
    """The files with the schema of the table: a column that a file lacks is null."""
    empty = spark.createDataFrame(schema.empty_table())
    if not paths:
        return empty
    reader = spark.read.schema(empty.schema).options(**options)
    return reader.parquet(*(for_spark(one) for one in paths)).select(*empty.columns)


def arrow_schema(rows: "DataFrame") -> pa.Schema:
    """Of the files that Spark will write, with every column optional."""
    # Spark converts data only; a table without rows has the schema.
    found = rows.sparkSession.createDataFrame([], rows.schema).toArrow().schema
    return pa.schema([_optional(one) for one in found])


def for_spark(path: str) -> str:
    for scheme, hadoop in _HADOOP_SCHEMES.items():
        if path.startswith(scheme):
            return hadoop + path.removeprefix(scheme)
    return path


def _optional(found: pa.Field) -> pa.Field:
    return pa.field(found.name, _optional_inside(found.type), nullable=True)


def _optional_inside(found: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(found):
        return pa.struct([_optional(found.field(number)) for number in range(found.num_fields)])
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return pa.list_(pa.field("element", _optional_inside(found.value_type), nullable=True))
    if pa.types.is_map(found):
        return pa.map_(_optional_inside(found.key_type), _optional_inside(found.item_type))
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", "UTC" if found.tz else None)
    return found


@contextmanager
def _settings(spark: "SparkSession", chosen: Mapping[str, str]) -> Iterator[None]:
    conf: Any = spark.conf
    before = {key: conf.get(key, None) for key in chosen}
    for key, value in chosen.items():
        conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            conf.unset(key) if value is None else conf.set(key, value)
