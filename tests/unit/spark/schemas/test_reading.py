"""Values of several writers in one batch; Protobuf and JSON Schema; what is undecodable and what fails."""

import base64
import datetime
import decimal
import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, message_factory

from spark.registry_server import RegistryServer, running_registry
from tidelog.spark.options import OptionError
from tidelog.spark.schemas import reading, writing
from tidelog.spark.schemas.errors import RegistryUnavailable
from tidelog.spark.schemas.proto_files import file_descriptor
from tidelog.spark.schemas.registry import Registered, RegistrySettings

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
ORDER_2 = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "note", "type": "string", "default": "-"}, {"name": "id", "type": "long"}],
}
CUSTOMER = {"type": "record", "name": "Customer", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with running_registry() as running:
        yield running


def settings(server: RegistryServer, **more: str) -> RegistrySettings:
    return RegistrySettings.of(server.url, {name.replace("_", "."): one for name, one in more.items()})


def framed(number: int, content: bytes) -> bytes:
    return b"\x00" + struct.pack(">I", number) + content


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(plan: reading.Reading, values: list[bytes | None]) -> tuple[list[Any], list[int]]:
    array, bad = plan.decode(pa.array(values, pa.binary()))
    array.validate(full=True)
    assert array.type == plan.type
    return array.to_pylist(), bad.tolist()


# -- which schema wrote a value ----------------------------------------------------------------


def test_each_value_is_decoded_by_the_schema_that_wrote_it(server: RegistryServer) -> None:
    """As main had it, the id was ignored: the second schema's values had the wrong columns."""
    old, new = server.add("orders-value", ORDER), server.add("orders-value", ORDER_2)
    other = server.add("customers-value", CUSTOMER)
    plan = reading.plan("confluent-avro", "", settings(server), "orders-value")
    rows, bad = read(
        plan,
        [
            framed(new, avro(ORDER_2, {"note": "x", "id": 1})),
            None,
            framed(old, avro(ORDER, {"id": 2})),
            framed(other, avro(CUSTOMER, {"id": 3})),  # another record
            framed(77, avro(ORDER, {"id": 4})),  # an id that the registry does not know
            b"\x01" + framed(old, avro(ORDER, {"id": 5}))[1:],  # no zero in front
            b"\x00\x00",
            b"",
            framed(new, b"\x80"),
            framed(old, avro(ORDER, {"id": 6})),
        ],
    )
    good = {0: {"note": "x", "id": 1}, 2: {"note": "-", "id": 2}, 9: {"note": "-", "id": 6}}
    assert rows == [good.get(number) for number in range(10)]
    assert bad == [0, 0, 0, 1, 1, 1, 1, 1, 1, 0]


def test_a_reader_schema_can_be_given(server: RegistryServer) -> None:
    new = server.add("orders-value", ORDER_2)
    plan = reading.plan("confluent-avro", json.dumps(ORDER), settings(server))
    assert read(plan, [framed(new, avro(ORDER_2, {"note": "x", "id": 1}))]) == ([{"id": 1}], [0])


def test_references_are_followed(server: RegistryServer) -> None:
    server.add("money", {"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "int"}]})
    using = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "Money"}]}
    number = server.add("o", using, references=[{"name": "Money", "subject": "money", "version": 1}])
    plan = reading.plan("confluent-avro", "", settings(server), "o")
    assert read(plan, [framed(number, b"\x0a")]) == ([{"price": {"cents": 5}}], [0])


def test_without_a_registry_only_named_ids_are_accepted() -> None:
    with pytest.raises(OptionError, match="only the registry knows"):
        reading.plan("confluent-avro", json.dumps(ORDER))
    plan = reading.plan("confluent-avro", json.dumps(ORDER), ids=[7, 8])
    value = avro(ORDER, {"id": 1})
    assert read(plan, [framed(7, value), framed(8, value), framed(9, value)])[1] == [0, 0, 1]


def test_a_registry_that_is_down_fails_the_run_and_marks_nothing(server: RegistryServer) -> None:
    number = server.add("orders-value", ORDER)
    late = server.add("orders-value", ORDER_2)
    plan = reading.plan("confluent-avro", json.dumps(ORDER), settings(server, max_retries="0"))
    assert read(plan, [framed(number, avro(ORDER, {"id": 1}))])[1] == [0]
    server.fails = 1
    with pytest.raises(RegistryUnavailable, match="does not answer"):
        read(plan, [framed(late, avro(ORDER_2, {"note": "", "id": 1}))])
    assert read(plan, [framed(late, avro(ORDER_2, {"note": "", "id": 1}))])[1] == [0]


def test_plans_that_cannot_work_are_refused(server: RegistryServer) -> None:
    server.add("json-value", "{}", "JSON")
    cases: tuple[tuple[Any, str], ...] = (
        (("xml",), "The format is 'xml'; allowed: avro, confluent-avro"),
        (("avro",), "The format avro needs a schema"),
        (("avro", json.dumps(ORDER), settings(server)), "have no schema id"),
        (("confluent-avro", "", settings(server)), "needs a schema, or the subject"),
        (("confluent-avro", "", settings(server), "json-value"), "is of the type JSON"),
        (("confluent-avro", "", settings(server), "nothing"), "no schema of the subject 'nothing'"),
    )
    for arguments, complaint in cases:
        with pytest.raises(OptionError, match=complaint):
            reading.plan(*arguments)


# -- JSON Schema ---------------------------------------------------------------------------------

PERSON = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": ["string", "null"]},
        "size": {"anyOf": [{"type": "null"}, {"type": "number"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {"$ref": "#/definitions/address"},
        "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
        "anything": {},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["id"],
    "definitions": {"address": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def test_json_schema_values_are_validated_and_become_columns(server: RegistryServer) -> None:
    pytest.importorskip("jsonschema_rs")
    number = server.add("people-value", PERSON, "JSON")
    plan = reading.plan("confluent-json", "", settings(server), "people-value")
    assert str(plan.type) == (
        "struct<id: int64, name: string, size: double, tags: list<element: string>, "
        "address: struct<city: string>, extra: map<string, int64>, anything: string, kind: string>"
    )
    good = {
        "id": 1, "name": None, "size": 3, "tags": ["x"], "address": {"city": "Oslo"}, "extra": {"a": 2},
        "anything": [1, {"b": None}], "kind": "b", "unknown": True,
    }  # fmt: skip
    contents = [
        json.dumps(good).encode(), b'{"id": 1.0}', b'{"name": "x"}', b'{"id": "x"}', b'{"id": 1} x', b"",
        b"null",
        b'{"id": 99999999999999999999}', b'{"id": 1, "kind": "c"}', b"{", b"\xff",
    ]  # fmt: skip
    rows, bad = read(plan, [framed(number, one) for one in contents])
    assert rows[0] == {
        "id": 1, "name": None, "size": 3.0, "tags": ["x"], "address": {"city": "Oslo"}, "extra": [("a", 2)],
        "anything": '[1,{"b":null}]', "kind": "b",
    }  # fmt: skip
    assert rows[1]["id"] == 1 and bad == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1]


def test_json_schemas_refer_to_the_registry_only(server: RegistryServer) -> None:
    pytest.importorskip("jsonschema_rs")
    server.add("city", {"type": "object", "properties": {"zip": {"type": "string"}}}, "JSON")
    schema = {"type": "object", "properties": {"city": {"$ref": "city.json"}}}
    number = server.add("a", schema, "JSON", [{"name": "city.json", "subject": "city", "version": 1}])
    plan = reading.plan("confluent-json", "", settings(server), "a")
    values: list[bytes | None] = [
        framed(number, b'{"city": {"zip": "1"}}'),
        framed(number, b'{"city": {"zip": 1}}'),
    ]
    assert read(plan, values) == ([{"city": {"zip": "1"}}, None], [0, 1])
    for text, complaint in (
        ('{"$ref": "http://127.0.0.1:1/other.json"}', "is not one of its references"),
        ('{"properties": {"a": {"$ref": "#/properties/b"}}}', "which does not exist"),
        ('{"properties": {"a": {"$ref": "#"}}}', "refers to itself"),
        ("{", "is not valid JSON"),
    ):
        with pytest.raises(OptionError, match=complaint):
            reading.plan("confluent-json", text, ids=[1])


def test_json_schema_values_are_written_and_read_again(server: RegistryServer) -> None:
    pytest.importorskip("jsonschema_rs")
    plan = writing.plan("confluent-json", json.dumps(PERSON), settings(server), "people-value")
    rows = [{"id": 1, "name": "x", "tags": ["a"], "extra": [("k", 5)]}, None]
    kind = pa.struct(
        {
            "id": pa.int64(),
            "name": pa.string(),
            "tags": pa.list_(pa.string()),
            "extra": pa.map_(pa.string(), pa.int64()),
        }
    )
    values = plan.encode(pa.array(rows, kind)).to_pylist()
    assert values == [framed(1, b'{"id":1,"name":"x","tags":["a"],"extra":{"k":5}}'), None]
    with pytest.raises(OptionError, match="is not valid by the JSON Schema"):
        plan.encode(pa.array([{"id": None, "name": "x"}], pa.struct({"id": pa.int64(), "name": pa.string()})))


# -- Protobuf --------------------------------------------------------------------------------------


def proto_file() -> descriptor_pb2.FileDescriptorProto:
    """message Other {}  message Order { message Line {…} … }, with well-known types and a map."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="default", package="shop", syntax="proto3")
    file.dependency.extend(
        f"google/protobuf/{one}.proto" for one in ("timestamp", "wrappers", "duration", "struct")
    )
    file.message_type.add(name="Other").field.add(name="x", number=1, type=kinds.TYPE_INT32, label=1)
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.add(name="what", number=1, type=kinds.TYPE_STRING, label=1)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=kinds.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=kinds.TYPE_INT64, label=1)
    state = order.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    messages = {
        "lines": (".shop.Order.Line", 3), "counts": (".shop.Order.CountsEntry", 3),
        "at": (".google.protobuf.Timestamp", 1), "note": (".google.protobuf.StringValue", 1),
        "took": (".google.protobuf.Duration", 1), "more": (".google.protobuf.Struct", 1),
        "best": (".shop.Order.Line", 1),
    }  # fmt: skip
    for number, (name, (type_name, label)) in enumerate(messages.items(), 1):
        order.field.add(name=name, number=number, type=kinds.TYPE_MESSAGE, type_name=type_name, label=label)
    order.field.add(name="state", number=20, type=kinds.TYPE_ENUM, type_name=".shop.Order.State", label=1)
    scalars = {
        "id": kinds.TYPE_INT64, "small": kinds.TYPE_UINT32, "big": kinds.TYPE_UINT64,
        "price": kinds.TYPE_DOUBLE, "ratio": kinds.TYPE_FLOAT, "done": kinds.TYPE_BOOL,
        "raw": kinds.TYPE_BYTES,
    }  # fmt: skip
    for number, (name, kind) in enumerate(scalars.items(), 30):
        order.field.add(name=name, number=number, type=kind, label=1)
    return file


def serialized(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_protobuf_messages_become_columns_and_are_written_again(server: RegistryServer) -> None:
    text = serialized(proto_file())
    number = server.add("orders-value", text, "PROTOBUF")
    plan = reading.plan("confluent-protobuf", "", settings(server), "orders-value", message="Order")
    message = file_descriptor(Registered(0, "PROTOBUF", text), (), None).message_types_by_name["Order"]
    order = message_factory.GetMessageClass(message)()
    order.id, order.small, order.big, order.raw, order.state = -1, (1 << 32) - 1, (1 << 64) - 1, b"\x00", 1
    order.lines.add().what = "tea"
    order.counts["a"] = 5
    order.at.seconds, order.at.nanos = -1, 999_999_999
    order.note.value = ""
    order.took.seconds = 90
    order.more.update({"k": [1, None]})
    value = framed(number, b"\x02\x02" + order.SerializeToString())  # the second message of the file
    empty = framed(number, b"\x02\x02")
    other = framed(number, b"\x00" + b"\x08\x01")
    nested = framed(number, b"\x04\x02\x00")
    rows, bad = read(
        plan, [value, empty, other, nested, framed(number, b"\x02\x02\xff"), framed(number, b""), None]
    )
    expected = {
        "lines": [{"what": "tea"}], "counts": [("a", 5)],
        "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC), "note": "",
        "took": datetime.timedelta(seconds=90), "more": '{"k": [1.0, null]}', "best": None, "state": "PAID",
        "id": -1, "small": (1 << 32) - 1, "big": decimal.Decimal((1 << 64) - 1), "price": 0.0, "ratio": 0.0,
        "done": False, "raw": b"\x00",
    }  # fmt: skip
    assert rows[0] == expected
    assert rows[1] is not None and rows[1]["note"] is None and rows[1]["id"] == 0 and rows[1]["lines"] == []
    assert bad == [0, 0, 1, 1, 1, 1, 0]
    again = writing.plan("confluent-protobuf", "", settings(server), "orders-value", message="shop.Order")
    values = again.encode(pa.array(rows[:2], plan.type)).to_pylist()
    assert values[1] == empty
    assert read(plan, values)[0] == rows[:2]


def test_a_protobuf_reader_may_be_older_than_the_writer(server: RegistryServer) -> None:
    old = proto_file()
    del old.message_type[1].field[:-1]
    server.add("orders-value", serialized(old), "PROTOBUF")
    number = server.add("new", serialized(proto_file()), "PROTOBUF")
    plan = reading.plan("confluent-protobuf", "", settings(server), "orders-value", message="Order")
    assert read(plan, [framed(number, b"\x02\x02\xa2\x02\x01x")]) == ([{"raw": b"x"}], [0])


TEXT = """
syntax = "proto3";
package shop;
import "money.proto";
import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; Money price = 2; google.protobuf.Timestamp at = 3; optional int32 count = 4; }
"""


def test_protobuf_as_text_is_compiled(server: RegistryServer) -> None:
    pytest.importorskip("grpc_tools")
    server.add("money", 'syntax = "proto3"; package shop; message Money { int32 cents = 1; }', "PROTOBUF")
    references = [{"name": "money.proto", "subject": "money", "version": 1}]
    number = server.add("o", TEXT, "PROTOBUF", references)
    plan = reading.plan("confluent-protobuf", "", settings(server), "o")
    value = framed(number, b"\x00\x08\x05\x12\x02\x08\x07")
    assert read(plan, [value])[0] == [{"id": 5, "price": {"cents": 7}, "at": None, "count": None}]
    with pytest.raises(OptionError, match="The Protobuf schema is invalid"):
        reading.plan("confluent-protobuf", "message {", ids=[1])


def test_protobuf_schemas_that_cannot_be_columns_are_refused() -> None:
    file = proto_file()
    line = file.message_type[1].nested_type[0]
    line.field.add(name="again", number=9, type=11, type_name=".shop.Order", label=1)
    with pytest.raises(OptionError, match=r"message shop\.Order contains itself"):
        reading.plan("confluent-protobuf", serialized(file), ids=[1], message="Order")
    with pytest.raises(OptionError, match=r"no message 'Nothing'; there are shop\.Other, shop\.Order"):
        reading.plan("confluent-protobuf", serialized(proto_file()), ids=[1], message="Nothing")
    file = proto_file()
    file.dependency.append("elsewhere.proto")
    with pytest.raises(OptionError, match=r"imports elsewhere\.proto"):
        reading.plan("confluent-protobuf", serialized(file), ids=[1])


# -- Avro written ------------------------------------------------------------------------------------


def test_avro_is_registered_and_written(server: RegistryServer) -> None:
    with pytest.raises(OptionError, match="is not registered under the subject"):
        writing.plan("confluent-avro", json.dumps(ORDER_2), settings(server), "o", register=False)
    plan = writing.plan("confluent-avro", json.dumps(ORDER_2), settings(server), "o")
    kind = pa.struct({"id": pa.int64(), "note": pa.string()})
    assert plan.encode(pa.array([{"id": 1, "note": "x"}, None], kind)).to_pylist() == [
        framed(1, b"\x02x\x02"),
        None,
    ]
    # A field that is missing gets its default; one that the schema lacks, or a null in it, is refused.
    assert plan.encode(pa.array([{"id": 1}], pa.struct({"id": pa.int64()}))).to_pylist() == [
        framed(1, b"\x02-\x02")
    ]
    with pytest.raises(OptionError, match="The schema has no field 'what' in Order; there are id, note"):
        plan.encode(pa.array([{"id": 1, "what": 2}], pa.struct({"id": pa.int64(), "what": pa.int64()})))
    with pytest.raises(OptionError, match="The schema needs a field 'id' in Order"):
        plan.encode(pa.array([{"note": "x"}], pa.struct({"note": pa.string()})))
    with pytest.raises(OptionError, match="A row does not match the Avro schema"):
        plan.encode(pa.array([{"id": None, "note": "x"}], kind))
    with pytest.raises(OptionError, match="needs a registry and a subject"):
        writing.plan("confluent-avro", json.dumps(ORDER))


def test_what_was_written_is_read_again() -> None:
    def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
        return {"name": name, "type": {"type": kind, **more} if more else kind}

    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            field("at", "long", logicalType="timestamp-millis"),
            field("local", "long", logicalType="local-timestamp-micros"),
            field("day", "int", logicalType="date"),
            field("price", "bytes", logicalType="decimal", precision=9, scale=2),
            field("choice", ["null", "int", "string"]),
            field("wide", ["int", "long"]),
            field("map", "map", values=["null", "double"]),
            field("list", "array", items={"type": "enum", "name": "E", "symbols": ["A", "B"]}),
            field("nanos", "long", logicalType="timestamp-nanos"),
            field("time", "int", logicalType="time-millis"),
        ],
    }
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)
    row = {
        "at": moment.replace(tzinfo=datetime.UTC), "local": moment.replace(microsecond=999_999),
        "day": datetime.date(1, 1, 1), "price": decimal.Decimal("-1234567.89"),
        "choice": {"member0": None, "member1": "x"}, "wide": 1 << 40, "map": [("a", None), ("b", 1.5)],
        "list": ["B"], "nanos": -1, "time": 5,
    }  # fmt: skip
    plan = reading.plan("avro", json.dumps(schema))
    rows = pa.array([row, row | {"choice": None}], plan.type)
    values = writing.plan("avro", json.dumps(schema)).encode(rows)
    assert read(plan, values.to_pylist())[0] == rows.to_pylist()
