"""Avro values to Arrow columns: compared with fastavro, which decodes them one by one."""

import datetime
import decimal
import io
import json
import random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tidelog.spark.options import OptionError
from tidelog.spark.schemas.avro.decoding import AvroDecoder
from tidelog.spark.schemas.avro.layout import Layout
from tidelog.spark.schemas.avro.model import parse
from tidelog.spark.schemas.errors import Undecodable
from tidelog.spark.schemas.framing import Values

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def decoded(values: list[bytes | None], writer: Any, reader: Any = None) -> tuple[list[Any], list[int]]:
    """(rows, which are undecodable)."""
    layout = Layout(parse(json.dumps(writer if reader is None else reader)).root)
    found = Values.of(pa.array(values, pa.binary()))
    array, bad = AvroDecoder(parse(json.dumps(writer)).root, layout).decode(
        found.starts, found.ends, found.end
    )
    array.validate(full=True)
    return array.to_pylist(), bad.tolist()


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": n, "type": t, **(m[0] if m else {})} for n, t, *m in fields],
        **more,
    }


def logical(kind: str, annotation: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": annotation, **more}


# -- random schemas --------------------------------------------------------------------------


class Drawn:
    """A random schema, values of it, and what becomes of them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.names = 0
        self.schema = self.record(3)

    def record(self, depth: int) -> dict[str, Any]:
        fields = [(f"f{number}", self.type(depth - 1)) for number in range(self.draw.randint(0, 5))]
        return record(*fields, name=self.name())

    def name(self) -> str:
        self.names += 1
        return f"n{self.names % 3}.N{self.names}"

    def type(self, depth: int) -> Any:
        kinds = ["primitive", "primitive", "enum", "fixed", "optional"]
        if depth > 0:
            kinds += ["record", "array", "map", "union"]
        kind = self.draw.choice(kinds)
        if kind == "primitive":
            return self.draw.choice(PRIMITIVES)
        if kind == "enum":
            return {"type": "enum", "name": self.name(), "symbols": ["A", "B", "C"]}
        if kind == "fixed":
            return {"type": "fixed", "name": self.name(), "size": self.draw.choice([0, 1, 16, 40])}
        if kind == "optional":
            both = ["null", self.draw.choice(PRIMITIVES[1:])]
            return both if self.draw.random() < 0.5 else both[::-1]
        if kind == "record":
            return self.record(depth)
        if kind in ("array", "map"):
            return {"type": kind, "items" if kind == "array" else "values": self.type(depth - 1)}
        others = self.draw.sample(["null", "int", "string", "double", "boolean"], self.draw.randint(1, 4))
        return [*others, self.record(depth - 1)]

    def value(self, schema: Any) -> tuple[Any, Any]:
        """(for fastavro, as a row)."""
        draw = self.draw
        if isinstance(schema, list):
            return self.union(schema)
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "null":
            return None, None
        if kind == "boolean":
            one: Any = draw.random() < 0.5
        elif kind in ("int", "long"):
            one = draw.choice([0, 1, -1, draw.randint(-(1 << 31), (1 << 31) - 1)])
            if kind == "long":
                one = draw.choice([one, draw.randint(-(1 << 63), (1 << 63) - 1)])
        elif kind in ("float", "double"):
            one = draw.choice([0.0, -1.5, 2.0**100])
        elif kind in ("bytes", "fixed"):
            size = draw.choice([0, 1, 7, 31, 32, 33, 600]) if kind == "bytes" else schema["size"]
            one = draw.randbytes(size)
        elif kind == "string":
            one = "".join(draw.choice("aé€😀z") for _ in range(draw.choice([0, 1, 8, 40, 700])))
        elif kind == "enum":
            one = draw.choice(schema["symbols"])
        else:
            return self.nested(kind, schema)
        return one, one

    def nested(self, kind: str, schema: Any) -> tuple[Any, Any]:
        if kind == "array":
            items = [self.value(schema["items"]) for _ in range(self.draw.choice([0, 1, 5]))]
            return [one for one, _ in items], [row for _, row in items]
        if kind == "map":
            many = {f"k{n}": self.value(schema["values"]) for n in range(self.draw.choice([0, 2]))}
            return {k: one for k, (one, _) in many.items()}, [(k, row) for k, (_, row) in many.items()]
        fields = {one["name"]: self.value(one["type"]) for one in schema["fields"]}
        return {k: one for k, (one, _) in fields.items()}, {k: row for k, (_, row) in fields.items()}

    def union(self, branches: list[Any]) -> tuple[Any, Any]:
        chosen = self.draw.choice(branches)
        one, row = self.value(chosen)
        others = [branch for branch in branches if branch != "null"]
        name = chosen if isinstance(chosen, str) else chosen["name"]
        if chosen == "null" or len(others) == 1:
            return (name, one), row
        return (name, one), {f"member{n}": row if o is chosen else None for n, o in enumerate(others)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_random_schemas(seed: int) -> None:
    drawn = Drawn(seed)
    both = [drawn.value(drawn.schema) for _ in range(20)]
    values: list[bytes | None] = [encoded(drawn.schema, one) for one, _ in both]
    rows, bad = decoded([*values, None], drawn.schema)
    assert rows == [*(row for _, row in both), None] and not any(bad)
    # The same again through an older reader, that has the first field only.
    reader = {**drawn.schema, "fields": drawn.schema["fields"][:1]}
    rows, bad = decoded(values, drawn.schema, reader)
    first = {one["name"] for one in reader["fields"]}
    assert rows == [{k: v for k, v in row.items() if k in first} for _, row in both] and not any(bad)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_values_are_marked_and_leave_nothing_behind(seed: int) -> None:
    drawn = Drawn(1000 + seed)
    both = [drawn.value(drawn.schema) for _ in range(10)]
    values: list[bytes | None] = []
    expected: list[Any] = []
    parsed = fastavro.parse_schema(drawn.schema)
    for one, row in both:
        good = encoded(drawn.schema, one)
        values += [good, good + b"\x00", bytes(good[:-1])]
        expected += [row, None, None if good else row]
        torn = bytearray(good)
        for _ in range(3 if good else 0):
            torn[drawn.draw.randrange(len(torn))] = drawn.draw.randrange(256)
            values.append(bytes(torn))
            expected.append(...)  # it may still match
    rows, bad = decoded(values, drawn.schema)
    for value, row, mark, wanted in zip(values, rows, bad, expected, strict=True):
        if wanted is not ...:
            assert (row, mark) == (wanted, wanted is None)
        elif mark:
            assert row is None
        else:  # fastavro must find the same length of value in it
            stream = io.BytesIO(value or b"")
            fastavro.schemaless_reader(stream, parsed, None)
            assert stream.read() == b""


# -- resolution ------------------------------------------------------------------------------


def test_fields_are_added_removed_reordered_and_renamed() -> None:
    writer = record(("a", "int"), ("gone", {"type": "array", "items": "string"}), ("b", "string"))
    reader = record(
        ("renamed", "string", {"aliases": ["b"]}),
        ("new", ["null", "long"], {"default": None}),
        ("a", "long"),
        ("text", "string", {"default": "é"}),
        ("at", logical("long", "timestamp-millis"), {"default": -1}),
        ("price", logical("bytes", "decimal", precision=4, scale=2), {"default": "\u0000\u00ff"}),
        ("inner", record(("x", "int", {"default": 5}), name="I"), {"default": {}}),
        ("list", {"type": "array", "items": "int"}, {"default": [1, 2]}),
        ("choice", ["string", "int"], {"default": "x"}),
    )
    rows, bad = decoded([encoded(writer, {"a": 7, "gone": ["x"], "b": "y"}), None], writer, reader)
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=datetime.UTC)
    assert rows == [
        {
            "renamed": "y", "new": None, "a": 7, "text": "é", "at": moment, "price": decimal.Decimal("2.55"),
            "inner": {"x": 5}, "list": [1, 2], "choice": {"member0": "x", "member1": None},
        },
        None,
    ]  # fmt: skip
    assert bad == [0, 0]


def test_numbers_and_text_are_promoted() -> None:
    for writer, reader, value, expected in (
        ("int", "long", -5, -5),
        ("int", "float", 3, 3.0),
        ("int", "double", 1 << 30, float(1 << 30)),
        ("long", "double", -(1 << 53), -float(1 << 53)),
        ("float", "double", 1.5, 1.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", "é".encode(), "é"),
        ("int", ["null", "long"], 4, 4),
        (["null", "int"], ["null", "string", "double"], 4, {"member0": None, "member1": 4.0}),
        (["int", "string"], "string", "x", "x"),
        ("int", ["double", "long"], 4, {"member0": 4.0, "member1": None}),
    ):
        content = encoded(record(("f", writer)), {"f": value})
        assert decoded([content], record(("f", writer)), record(("f", reader))) == ([{"f": expected}], [0])
    rows, bad = decoded(
        [encoded(record(("f", "bytes")), {"f": b"\xff"})], record(("f", "bytes")), record(("f", "string"))
    )
    assert (rows, bad) == ([None], [1])
    rows, bad = decoded(
        [encoded(record(("f", ["int", "string"])), {"f": one}) for one in (1, "x")],
        record(("f", ["int", "string"])),
        record(("f", "string")),
    )
    assert (rows, bad) == ([None, {"f": "x"}], [1, 0])


def test_enums_and_names() -> None:
    writer = {"type": "enum", "name": "a.E", "symbols": ["X", "NEW", "Y"]}
    values: list[bytes | None] = [encoded(record(("e", writer)), {"e": one}) for one in ("X", "NEW", "Y")]
    strict = {"type": "enum", "name": "b.E", "symbols": ["Y", "X"]}
    assert decoded(values, record(("e", writer)), record(("e", strict))) == (
        [{"e": "X"}, None, {"e": "Y"}],
        [0, 1, 0],
    )
    lenient = {**strict, "default": "Y"}
    assert [row["e"] for row in decoded(values, record(("e", writer)), record(("e", lenient)))[0]] == [
        "X",
        "Y",
        "Y",
    ]
    with pytest.raises(Undecodable, match=r"e: enum a\.E is not enum Other"):
        decoded(values, record(("e", writer)), record(("e", {**strict, "name": "Other"})))
    with pytest.raises(Undecodable, match="the writer has no field z, and the reader no default"):
        decoded(values, record(("e", writer)), record(("z", "int")))
    with pytest.raises(Undecodable, match="string is not int"):
        decoded([], record(("f", "string")), record(("f", "int")))
    twice = record(("first", {"type": "fixed", "name": "x.F", "size": 2}), ("second", ["null", "x.F"]))
    assert decoded([encoded(twice, {"first": b"ab", "second": b"cd"})], twice)[0] == [
        {"first": b"ab", "second": b"cd"}
    ]


def test_types_of_other_schemas_are_found() -> None:
    inner = json.dumps(record(("x", "int"), name="shop.Item"))
    outer = record(
        ("item", "shop.Item"), ("items", {"type": "array", "items": "shop.Item"}), name="shop.Order"
    )
    root = parse(json.dumps(outer), [inner]).root
    assert str(Layout(root).type) == "struct<item: struct<x: int32>, items: list<element: struct<x: int32>>>"


# -- logical types: the same as Spark's own Avro reader, see test_schema_golden.py -------------


def test_times_dates_and_decimals() -> None:
    raw = record(
        ("millis", "long"), ("micros", "long"), ("nanos", "long"), ("local", "long"), ("day", "int"),
        ("time", "long"), ("small", "bytes"), ("fixed", {"type": "fixed", "name": "F", "size": 17}),
        ("id", "string"),
    )  # fmt: skip
    schema = record(
        ("millis", logical("long", "timestamp-millis")),
        ("micros", logical("long", "timestamp-micros")),
        ("nanos", logical("long", "timestamp-nanos")),
        ("local", logical("long", "local-timestamp-millis")),
        ("day", logical("int", "date")),
        ("time", logical("long", "time-micros")),
        ("small", logical("bytes", "decimal", precision=5, scale=2)),
        ("fixed", logical("fixed", "decimal", name="F", size=17, precision=38, scale=0)),
        ("id", logical("string", "uuid")),
    )
    wide = -(10**38) + 1
    good: dict[str, Any] = {
        "millis": -1, "micros": -1, "nanos": 1_700_000_000_123_456_789, "local": -1, "day": -1,
        "time": 86_399_999_999, "small": b"\xff\x85", "fixed": wide.to_bytes(17, "big", signed=True),
        "id": "x",
    }  # fmt: skip
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)
    expected = {
        "millis": moment.replace(tzinfo=datetime.UTC),
        "micros": moment.replace(microsecond=999_999, tzinfo=datetime.UTC),
        "nanos": 1_700_000_000_123_456_789, "local": moment, "day": datetime.date(1969, 12, 31),
        "time": 86_399_999_999, "small": decimal.Decimal("-1.23"), "fixed": decimal.Decimal(wide), "id": "x",
    }  # fmt: skip
    bad: list[dict[str, Any]] = [
        {"millis": 1 << 60},  # no microsecond of 64 bits
        {"small": b"\x01\x86\xa0"},  # 1000.00 has six digits
        {"small": b""},
        {"small": b"\x00" * 30 + b"\x01"},
        {"fixed": (10**38).to_bytes(17, "big")},
    ]
    rows, marks = decoded([encoded(raw, good | one) for one in ({}, *bad)], schema)
    assert rows[0] == expected
    # Thirty zeros before a one are a number like any other.
    assert (
        [row is None for row in rows]
        == [False, True, True, True, False, True]
        == [bool(one) for one in marks]
    )
    assert rows[4]["small"] == decimal.Decimal("0.01")


def test_units_of_time_are_converted_between_writer_and_reader() -> None:
    for writer, reader, number, expected in (
        ("timestamp-millis", "timestamp-micros", 1500, "1970-01-01 00:00:01.500000+00:00"),
        ("timestamp-micros", "timestamp-millis", -1, "1969-12-31 23:59:59.999999+00:00"),
        ("timestamp-nanos", "timestamp-micros", -1, "1969-12-31 23:59:59.999999+00:00"),
        ("timestamp-micros", "timestamp-nanos", 5, "5000"),
        ("", "timestamp-millis", 1, "1970-01-01 00:00:00.001000+00:00"),
    ):
        schema = record(("f", logical("long", writer) if writer else "long"))
        value = encoded(record(("f", "long")), {"f": number})
        rows, _ = decoded([value], schema, record(("f", logical("long", reader))))
        assert str(rows[0]["f"]) == expected
    old, new = (record(("f", logical("bytes", "decimal", precision=9, scale=s))) for s in (2, 3))
    with pytest.raises(Undecodable, match="f: decimal bytes is not decimal bytes"):
        decoded([], old, new)


def test_lists_that_claim_too_much_are_refused_quickly() -> None:
    for items in ("null", record(name="Empty"), "int"):
        schema = record(("f", {"type": "array", "items": items}))
        huge = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2**63 - 1
        least = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # -2**63
        assert decoded([huge + b"\x00", least + b"\x00\x00", huge], schema)[1] == [1, 1, 1]
    # Blocks with their size in front, several of them.
    schema = record(("f", {"type": "array", "items": "int"}))
    assert decoded([b"\x03\x04\x02\x04\x02\x06\x00"], schema)[0] == [{"f": [1, 2, 3]}]
    assert decoded([b"\x03\x40\x02\x04\x02\x06\x00"], schema)[1] == [1]


def test_text_must_be_utf8() -> None:
    schema = record(("f", "string"))
    for content in (
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
        b"abcdefgh\xe2\x82",
        b"\xf4\x90\x80\x80",
    ):
        with pytest.raises(UnicodeDecodeError):
            content.decode()
        assert decoded([bytes([2 * len(content)]) + content], schema)[1] == [1]
    for text in ("\u0800", "\ud7ff", "\ue000", "\U00010000", "\U0010ffff", "abcdefgh€"):
        value = bytes([2 * len(text.encode())]) + text.encode()
        assert decoded([value], schema) == ([{"f": text}], [0])


def test_schemas_that_cannot_be_columns_are_refused() -> None:
    for text, complaint in (
        ("{", "is not valid JSON"),
        ('{"type": "nothing"}', "is invalid"),
        ('{"type": "record", "fields": []}', "is invalid"),
        (json.dumps(record(("n", ["null", "R"]))), "The Avro type R contains itself"),
        (json.dumps(record(("n", logical("bytes", "decimal", precision=50)))), "a decimal of 50 digits"),
    ):
        with pytest.raises(OptionError, match=complaint):
            parse(text)


def test_an_empty_batch_and_a_slice() -> None:
    schema = record(("f", "string"))
    assert decoded([], schema) == ([], [])
    layout = Layout(parse(json.dumps(schema)).root)
    part = Values.of(pa.array([b"\x02a", b"\x02b", None, b"\x02c"], pa.binary()).slice(1, 2))
    array, bad = AvroDecoder(layout.root, layout).decode(part.starts, part.ends, part.end)
    assert (array.to_pylist(), bad.tolist()) == ([{"f": "b"}, None], [0, 0])
