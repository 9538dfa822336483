"""Requests that a stranger might send: of the right form with wild values, and the same with broken bytes."""

import io
import random
import struct
import time
from collections.abc import Sequence
from dataclasses import Field, fields
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID, uuid4

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from .records import batch
from .wire import build

NUMBERS = (-1, 0, 0, 1, 2, 3, 5, 7, 64, 1000, 30_000, 2**31 - 1, -(2**31), 2**15 - 1, -2)
NAMES = (
    "t0", "t0", "t1", "g", "g2", "tx", "__consumer_offsets", "__transaction_state", "__cluster_metadata", "",
    ".", "a" * 300, "x y", "\u00e9\n", "range", "consumer", "1", "m-1",
)  # fmt: skip
COUNTS = (2**31 - 1, -1, -(2**31), 2**20, 65_536, -2)
VARINTS = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x00",
    b"\xff\x7f",
    b"\x00",
)
TAGS = (
    b"\x01\x00\x05abc",
    b"\x01\x63\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x02\x00\x00\x00\x00",
    b"\x01\x00\x00",
)


class Stranger:
    """Draws everything from one seed, so that a failure can be repeated."""

    def __init__(self, seed: int, topic_ids: Sequence[UUID] = (), cluster_id: str = "") -> None:
        self.chance = random.Random(seed)
        self._topic_ids = (UUID(int=0), *topic_ids)
        self._cluster_id = cluster_id

    def request(
        self, api_key: int, version: int, correlation_id: int, client_id: str | None, *, broken: bool
    ) -> bytes:
        """Header and body; where ``broken``, some of the body's bytes are other ones."""
        schema = load_request_schema(api_key, version)
        header_schema = schema.__header_schema__
        header, body = io.BytesIO(), io.BytesIO()
        said = {
            "request_api_key": api_key,
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": client_id,
        }
        entity_writer(header_schema)(header, build(header_schema, said))
        entity_writer(schema)(body, self._entity(schema))
        content = self._break(body.getvalue()) if broken else body.getvalue()
        return header.getvalue() + content

    def _entity(self, schema: type) -> Any:
        hints = get_type_hints(schema)
        return schema(**{field.name: self._value(field, hints[field.name]) for field in fields(schema)})

    def _value(self, field: Field[Any], hint: Any) -> Any:
        kind = hint
        if get_origin(hint) is UnionType:
            kind = next(each for each in get_args(hint) if each is not NoneType)
            if self.chance.random() < 0.2:
                return None
        if get_origin(kind) is tuple:
            return tuple(
                self._value(field, get_args(kind)[0]) for _ in range(self.chance.choice((0, 1, 1, 1, 2, 3)))
            )
        if hasattr(kind, "__flexible__"):
            return self._entity(kind)
        return self._primitive(field, str(field.metadata["kafka_type"]))

    def _primitive(self, field: Field[Any], kafka_type: str) -> Any:
        chance = self.chance
        if field.name == "cluster_id" and chance.random() < 0.8:
            return self._cluster_id
        match kafka_type:
            case "bool":
                return chance.random() < 0.5
            case "float64":
                return chance.choice((0.0, -1.0, 1e300))
            case "string":
                return chance.choice(NAMES)
            case "bytes" | "records":
                return chance.choice((b"", b"x", bytes(batch(b"v")), chance.randbytes(40), bytes(50)))
            case "uuid":
                return chance.choice((*self._topic_ids, uuid4()))
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=chance.choice((0, 1, 100, -1, 2**31 - 1, 30_000)))
            case "datetime_i64":
                return datetime.fromtimestamp(chance.choice((0, 1, 10**9)), UTC)
            case "error_code":
                return chance.choice(list(ErrorCode))
        return self._number(kafka_type)

    def _number(self, kafka_type: str) -> int:
        chance = self.chance
        bits = int(kafka_type.removeprefix("u").removeprefix("int"))
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        wild = (high, low, int(time.time() * 1000))
        number = chance.choice(NUMBERS) if chance.random() < 0.8 else chance.choice(wild)
        if kafka_type.startswith("u"):
            return abs(number) & ((1 << bits) - 1)
        return max(low, min(high, number))

    def _break(self, body: bytes) -> bytes:
        chance = self.chance
        data = bytearray(body)
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(8):
                case 0 if data:
                    data[at % len(data)] ^= 1 << chance.randrange(8)
                case 1:
                    data[at : at + 4] = struct.pack(">i", chance.choice(COUNTS))
                case 2:
                    data[at : at + 1] = chance.choice(VARINTS)
                case 3:
                    del data[at:]
                case 4:
                    data[at:at] = chance.randbytes(chance.randrange(1, 9))
                case 5:
                    data[at : at + 2] = struct.pack(">h", chance.choice((32_767, -1, -32_768, 1000)))
                case 6:
                    data[-1:] = chance.choice(TAGS)
                case _:
                    del data[at : at + chance.randrange(1, 5)]
        return bytes(data)
