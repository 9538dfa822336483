"""Parquet files that Spark writes and a table takes in afterwards.

Owns how Spark writes them: in one directory per attempt, with timestamps that other readers understand, and
split so that each file belongs to one partition of the table. Knows no table format.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from tidelog.spark.pipelines.tables import TableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

# A file system of Hadoop has its own name for the stores that other programs call s3 and gs.
_HADOOP_SCHEMES = {"s3://": "s3a://", "s3n://": "s3a://"}

# INT96, Spark's default for long, is not allowed in Iceberg or Delta.
_NEEDED = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}

_SENSIBLE = {
    # The number of files a task may have open before Spark sorts its rows by directory first, which costs
    # more than writing them: a task has one topic, and its rows are of a few days.
    "spark.sql.maxConcurrentOutputFileWriters": "4",
}

# A merge that skips what it cannot read would remove it, whatever the user's session says.
NOTHING_IGNORED = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}

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


def is_output(name: str) -> bool:
    """Whether a file below the directory that Spark wrote to is part of the result. A task that lost against
    its copy, or whose executor was given up, may write to a hidden directory after the job has ended.
    """
    return name.endswith(".parquet") and not any(part.startswith(("_", ".")) for part in name.split("/"))


def different_rows(path: str) -> str:
    """Why a compaction ended without changing anything."""
    return (
        f"The merged files of {path} would have another number of rows than the small ones; nothing was "
        "changed: run it again, and if that fails too, look for damaged files with `tidelog pipeline verify`."
    )


def write_parquet(rows: "DataFrame", path: str, partition_by: Sequence[str]) -> None:
    """Spark's own commit protocol: files appear when all tasks have ended."""
    with _settings(rows.sparkSession):
        writer = rows.write.mode("error").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.partitionBy(*partition_by).parquet(for_spark(path))


def read_parquet(
    spark: "SparkSession", schema: pa.Schema, paths: Sequence[str], **options: str
) -> "DataFrame":
    """The files with the schema of the table: a column that a file lacks is null."""
    wanted = _struct(schema)
    if not paths:
        return spark.createDataFrame([], wanted)
    reader = spark.read.schema(wanted).options(**NOTHING_IGNORED, **options)
    return reader.parquet(*(for_spark(one) for one in paths)).select(*wanted.fieldNames())


def arrow_schema(rows: "DataFrame") -> pa.Schema:
    """Of the files that Spark will write, with every column optional."""
    return pa.schema(_fields(rows.schema))


def check_spelling(known: "pa.Schema | pa.StructType", added: "pa.Schema | pa.StructType", path: str) -> None:
    """Raise :class:`TableError` for a field whose name the table has in other letters."""
    spellings = {one.name.lower(): one.name for one in [*added, *known]}
    kinds = {one.name: one.type for one in known}
    for one in added:
        spelling = spellings[one.name.lower()]
        if spelling != one.name:
            raise TableError(
                f"{path} has a field {spelling}, and new records have {one.name}, which Spark does not tell "
                "apart: give the field another name, or archive to a new target."
            )
        nested = kinds.get(one.name)
        if nested is not None and pa.types.is_struct(nested) and pa.types.is_struct(one.type):
            check_spelling(nested, one.type, path)


def for_spark(path: str) -> str:
    for scheme, hadoop in _HADOOP_SCHEMES.items():
        if path.startswith(scheme):
            return hadoop + path.removeprefix(scheme)
    return path


def _fields(schema: "StructType") -> list[pa.Field]:
    return [pa.field(one.name, _arrow(one.dataType)) for one in schema]


def _arrow(kind: "DataType") -> pa.DataType:
    from pyspark.sql import types

    match kind:
        case types.StructType():
            return pa.struct(_fields(kind))
        case types.ArrayType():
            return pa.list_(pa.field("element", _arrow(kind.elementType)))
        case types.MapType():
            return pa.map_(_arrow(kind.keyType), _arrow(kind.valueType))
        case types.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
    for known, arrow in _simple_types():
        if isinstance(kind, known):
            return arrow
    raise TableError(
        f"A column of the type {kind.simpleString()} cannot be archived: decode it as another type."
    )


def _struct(fields: "pa.Schema | pa.StructType") -> "StructType":
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(one.name, _spark(one.type)) for one in fields])


def _spark(kind: pa.DataType) -> "DataType":
    from pyspark.sql import types

    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return types.ArrayType(_spark(kind.value_type))
    if pa.types.is_map(kind):
        return types.MapType(_spark(kind.key_type), _spark(kind.item_type))
    if pa.types.is_decimal(kind):
        return types.DecimalType(kind.precision, kind.scale)
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)
    for known, arrow in _simple_types():
        if arrow == small:
            found: DataType = known()
            return found
    raise TableError(
        f"A column of the type {kind} cannot be read here: leave it out, or use the format's jar."
    )


@cache
def _simple_types() -> list[tuple[type, pa.DataType]]:
    from pyspark.sql import types

    return [
        (types.StringType, pa.string()),
        (types.BinaryType, pa.binary()),
        (types.BooleanType, pa.bool_()),
        (types.ByteType, pa.int8()),
        (types.ShortType, pa.int16()),
        (types.IntegerType, pa.int32()),
        (types.LongType, pa.int64()),
        (types.FloatType, pa.float32()),
        (types.DoubleType, pa.float64()),
        (types.DateType, pa.date32()),
        (types.TimestampType, pa.timestamp("us", "UTC")),
        (types.TimestampNTZType, pa.timestamp("us")),
    ]


@contextmanager
def _settings(spark: "SparkSession") -> Iterator[None]:
    conf: Any = spark.conf
    before = {key: conf.get(key, None) for key in (*_NEEDED, *_SENSIBLE)}
    for key, value in (_NEEDED | _SENSIBLE).items():
        if key in _NEEDED or before[key] in (None, "0"):  # a user's choice stays
            conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            conf.unset(key) if value is None else conf.set(key, value)
