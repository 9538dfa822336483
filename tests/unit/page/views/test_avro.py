"""Avro values for people, compared with fastavro; hostile ones are refused in time."""

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from tidelog.page.views.avro import Names, NoAvro, value_of

ORDER: dict[str, Any] = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "paid", "type": "boolean"},
        {"name": "weight", "type": "double"},
        {"name": "ratio", "type": "float"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "raw", "type": "bytes"},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"},
                                                         {"name": "before", "type": "State"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "other", "type": ["null", "shop.Order"]},
    ],
}  # fmt: skip


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def test_every_type() -> None:
    value: dict[str, Any] = {
        "id": -(2**40), "note": "ü", "paid": True, "weight": 1.5, "ratio": 0.25, "state": "SENT",
        "hash": b"\x01\xff", "raw": b"\x00", "lines": [{"sku": "a", "before": "NEW"}] * 2,
        "tags": {"x": 1, "y": -2}, "price": Decimal("-12.34"), "at": datetime(2026, 1, 2, tzinfo=UTC),
    }  # fmt: skip
    whole = value | {"other": value | {"other": None}}
    told = value | {
        "hash": "01ff", "raw": "00", "price": "-12.34", "at": "2026-01-02T00:00:00+00:00",
    }  # fmt: skip
    found = value_of(written(ORDER, whole), Names([ORDER]))
    assert found == told | {"other": told | {"other": None}}
    json.dumps(found)


def test_types_of_a_schema_that_is_referred_to() -> None:
    state = {"type": "enum", "name": "shop.State", "symbols": ["NEW", "SENT"]}
    event = {"type": "record", "name": "shop.Event", "fields": [{"name": "now", "type": "State"}]}
    assert value_of(b"\x02", Names([state, event])) == {"now": "SENT"}


HOSTILE: list[tuple[str, Any, bytes]] = [
    ("ends too early", "string", b"\x10ab"),
    ("ends too early", "string", b"\x01"),  # a negative length
    ("left over", "int", b"\x02\x02"),
    ("no text", "string", b"\x02\xff"),
    ("without an end", "long", b"\xff" * 20),
    ("no such branch", ["null", "int"], b"\x08"),
    ("no such symbol", {"type": "enum", "name": "E", "symbols": ["A"]}, b"\x08"),
    ("too many items", {"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"),
    ("too deep", {"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, b""),
    ("no type", "Unheard", b""),
    ("schema is none", 7, b""),
    ("schema is none", {"type": "record", "name": "R", "fields": ["x"]}, b""),
    ("ends too early", {"type": "fixed", "name": "F", "size": "x"}, b"1"),
]


@pytest.mark.parametrize(("words", "schema", "data"), HOSTILE, ids=str)
def test_what_makes_no_sense(words: str, schema: Any, data: bytes) -> None:
    with pytest.raises(NoAvro, match=words):
        value_of(data, Names([schema]))


def test_a_schema_that_is_too_deep() -> None:
    schema: Any = "int"
    for _ in range(100):
        schema = {"type": "array", "items": schema}
    with pytest.raises(NoAvro, match="too deep"):
        Names([schema])


@pytest.mark.parametrize("schema", [
    {"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "scale": 10**9},
])  # fmt: skip
def test_a_logical_value_out_of_range_is_shown_as_it_is_written(schema: dict[str, Any]) -> None:
    data = b"\x02\x07" if schema["type"] == "bytes" else b"\xfe" + b"\xff" * 8 + b"\x01"
    assert value_of(data, Names([schema])) in ("07", 2**63 - 1)
