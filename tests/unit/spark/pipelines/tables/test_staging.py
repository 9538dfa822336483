"""Types of columns between Spark and Arrow, which tables in Iceberg and Delta are created and read with."""

from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types

from tidelog.spark.pipelines.tables import TableError
from tidelog.spark.pipelines.tables.staging import _struct, arrow_schema, for_spark


def columns(*fields: tuple[str, types.DataType]) -> Any:
    schema = types.StructType([types.StructField(name, kind, nullable=False) for name, kind in fields])
    return cast(Any, SimpleNamespace(schema=schema))


def test_types_of_spark_come_back_from_arrow() -> None:
    header = types.StructType(
        [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
    )
    rows = columns(
        ("headers", types.ArrayType(header)),
        ("counts", types.MapType(types.StringType(), types.LongType())),
        ("price", types.DecimalType(9, 2)),
        ("at", types.TimestampType()),
        ("local", types.TimestampNTZType()),
        ("date", types.DateType()),
        ("flags", types.ArrayType(types.BooleanType())),
        ("small", types.ShortType()),
        ("tiny", types.ByteType()),
        ("number", types.IntegerType()),
        ("ratio", types.FloatType()),
        ("exact", types.DoubleType()),
    )
    arrow = arrow_schema(rows)
    assert all(one.nullable for one in arrow)
    assert arrow.field("at").type == pa.timestamp("us", "UTC")
    assert arrow.field("headers").type.value_field.name == "element"
    back = _struct(arrow)
    assert [(one.name, one.dataType) for one in back] == [(one.name, one.dataType) for one in rows.schema]
    assert all(one.nullable for one in back)


def test_large_types_of_arrow_are_those_of_spark() -> None:
    found = _struct(pa.schema([("a", pa.large_string()), ("b", pa.large_list(pa.large_binary()))]))
    assert found.simpleString() == "struct<a:string,b:array<binary>>"


def test_other_types_are_one_sentence() -> None:
    with pytest.raises(TableError, match="of the type void cannot be archived"):
        arrow_schema(columns(("nothing", types.NullType())))
    with pytest.raises(TableError, match="of the type uint64 cannot be read here"):
        _struct(pa.schema([("unsigned", pa.uint64())]))


def test_spark_reaches_s3_by_hadoops_name() -> None:
    assert for_spark("s3://bucket/a") == "s3a://bucket/a"
    assert for_spark("s3a://bucket/a") == "s3a://bucket/a" and for_spark("/data/s3://") == "/data/s3://"
