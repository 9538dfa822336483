"""Types and values that Spark's own Avro reader gives, in a session whose time zone is New York's.

Run with a jar of spark-avro, this module prints what ``from_avro`` gives for the same schema and value.
"""

import io
import json
import sys
from typing import Any

import fastavro

TIME_ZONE = "America/New_York"


def _logical(kind: str, annotation: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": annotation, **more}


# Name: (Avro type, value without its logical type, Spark's type, value as Spark's to_json shows it).
FIELDS: dict[str, tuple[Any, Any, str, str]] = {
    "day": (_logical("int", "date"), -1, "date", '"1969-12-31"'),
    "millis": (_logical("long", "timestamp-millis"), -1, "timestamp", '"1969-12-31T18:59:59.999-05:00"'),
    "micros": (
        _logical("long", "timestamp-micros"), 1_700_000_000_123_456, "timestamp",
        '"2023-11-14T17:13:20.123-05:00"',
    ),
    "summer": (
        _logical("long", "timestamp-millis"), 1_720_000_000_000, "timestamp",
        '"2024-07-03T05:46:40.000-04:00"',
    ),
    "local": (_logical("long", "local-timestamp-millis"), -1, "timestamp_ntz", '"1969-12-31T23:59:59.999"'),
    "local_micros": (
        _logical("long", "local-timestamp-micros"), -1, "timestamp_ntz", '"1969-12-31T23:59:59.999"',
    ),
    "time": (_logical("int", "time-millis"), 86_399_999, "int", "86399999"),
    "decimal": (_logical("bytes", "decimal", precision=9, scale=2), b"\xff\x85", "decimal(9,2)", "-1.23"),
    "fixed_decimal": (
        _logical("fixed", "decimal", name="F", size=8, precision=18, scale=3), b"\xff" * 7 + b"\x85",
        "decimal(18,3)", "-0.123",
    ),
    "no_decimal": (_logical("int", "decimal", precision=3), 4, "int", "4"),
    "uuid": (_logical("string", "uuid"), "123e4567", "string", '"123e4567"'),
    "fixed_uuid": (
        _logical("fixed", "uuid", name="U", size=16), b"\x01" * 16, "binary", '"AQEBAQEBAQEBAQEBAQEBAQ=="',
    ),
    "duration": (
        _logical("fixed", "duration", name="D", size=12), b"\x01" * 12, "binary", '"AQEBAQEBAQEBAQEB"',
    ),
    "choice": (["null", "int", "string"], "x", "struct<member0:int,member1:string>", '{"member1":"x"}'),
    "number": (["int", "double"], 3, "struct<member0:int,member1:double>", '{"member0":3}'),
    "widened": (["int", "long"], 5, "bigint", "5"),
    "real": (["null", "float", "double"], 1.5, "double", "1.5"),
    "one": (["int"], 3, "int", "3"),
    "symbol": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", '"B"'),
    "again": (["null", "E"], "A", "string", '"A"'),
    "bytes": ({"type": "fixed", "name": "X", "size": 2}, b"ab", "binary", '"YWI="'),
    "map": ({"type": "map", "values": ["null", "int"]}, {"a": 1}, "map<string,int>", '{"a":1}'),
    "list": ({"type": "array", "items": ["null", "int"]}, [1, None], "array<int>", "[1,null]"),
    "inner": (
        {"type": "record", "name": "I", "fields": [{"name": "x", "type": "float"}]}, {"x": 0.5},
        "struct<x:float>", '{"x":0.5}',
    ),
}  # fmt: skip


def schema() -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name, (kind, *_) in FIELDS.items()]
    return {"type": "record", "name": "R", "fields": fields}


def value() -> bytes:
    out = io.BytesIO()
    parsed = fastavro.parse_schema(_plain(schema()))
    fastavro.schemaless_writer(out, parsed, {name: one for name, (_, one, *_) in FIELDS.items()})
    return out.getvalue()


def _plain(said: Any) -> Any:
    if isinstance(said, dict):
        return {k: _plain(v) for k, v in said.items() if k not in ("logicalType", "precision", "scale")}
    return [_plain(one) for one in said] if isinstance(said, list) else said


def shown(frame: Any) -> dict[str, list[str]]:
    """The fields of the column ``r``: types and values."""
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema["r"].dataType}
    names = ", ".join(f"'{name}', to_json(struct(r.{name} as v))" for name in kinds)
    (row,) = frame.selectExpr(f"map({names}) as shown").collect()
    return {name: [kind, row.shown[name].removeprefix('{"v":')[:-1]] for name, kind in kinds.items()}


def main() -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql.avro.functions import from_avro

    builder = SparkSession.builder.master("local[1]").config("spark.jars", sys.argv[1])
    spark = (
        builder.config("spark.sql.session.timeZone", TIME_ZONE)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    frame = spark.createDataFrame([(value(),)], "value binary")
    found = shown(frame.select(from_avro("value", json.dumps(schema())).alias("r")))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
