"""Generates frames: requests of every API and version with wild values, and the same with broken bytes.

Everything is drawn from one seed, so that a finding can be repeated. Well-formed bodies are made once for
each version and changed afterwards: building one costs as much as parsing ten.
"""

import io
import random
import struct
from collections.abc import Iterator
from dataclasses import Field, fields
from datetime import UTC, datetime, timedelta
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.serial import entity_writer

from tidelog.broker.registry import SERVED
from tidelog.errors import ErrorCode
from tidelog.protocol import follower_fetch, messages, produce, sasl
from tidelog.protocol.kio_import import schema_name_map
from tidelog.protocol.own_schemas import load_request_schema
from tidelog.runtime.peers.exchanges import BY_API

BODIES_EACH = 4  # of one version
NUMBERS = (-1, 0, 1, 2, 3, 64, 1000, 30_000, (1 << 31) - 1, -(1 << 31), (1 << 15) - 1, (1 << 63) - 1)
TEXTS = ("t0", "__consumer_offsets", "", "a" * 300, "\u00e9\n", "1", "SCRAM-SHA-256", "n,,n=user,r=nonce")
COUNTS = ((1 << 31) - 1, -1, -(1 << 31), 1 << 20, 65_536, -2, 100_001)
VARINTS = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x00",
    b"\xff\x7f",
    b"\x00",
)
TAGS = (b"\x01\x00\x05abc", b"\x01\x63\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x01\x00\x00")
# Of messages of logins: any number of them, in any order.
LOGIN_PIECES = (
    b"n,,", b"n,a=user,", b"y,,", b"n=user", b",r=nonce", b"c=biws", b",p=AAAA", b",m=x", b"\x01",
    b"auth=Bearer ", b"auth=Bearer a.b.c\x01", b"host=x\x01", b"e30.e30.", b"\x01\x01",
    b"=2C", b"=3D", b"\0", b"\0user\0x", b"\xff",
)  # fmt: skip
REPEATED = (1, 1, 2, 7, 200, 5000)
CLIENT_IDS = (None, "", "app", "tidelog-node-2-to-1", "x" * 2000, "\n")
_HEADER = struct.Struct(">hhih")


class Frames:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._apis = _served()
        self._bodies: dict[tuple[int, int], list[bytes]] = {}

    def stream(self, frames: int) -> bytes:
        """Some frames behind one another, as one connection may send them; nearly all with true sizes."""
        return b"".join(self._sized(self.payload()) for _ in range(frames))

    def _sized(self, payload: bytes) -> bytes:
        size = len(payload)
        if self.chance.random() < 0.002:
            size = self.chance.choice((0, 1, 8, -1, size + 1, size - 1, 1 << 24, (1 << 31) - 1))
        return struct.pack(">i", size) + payload

    def payload(self) -> bytes:
        """Header and body of one request."""
        chance = self.chance
        if chance.random() < 0.02:
            return chance.randbytes(chance.randrange(9, 80))
        if chance.random() < 0.02:
            # The marks of a follower's fetch are its last bytes.
            ask = self._follower_ask()
            return self._broken(ask[:-60]) + ask[-60:] if chance.random() < 0.7 else self._broken(ask)
        if chance.random() < 0.01:
            return self._login()
        key, version = chance.choice(self._apis)
        header = self._header(key, version)
        body = chance.choice(self._bodies_of(key, version))
        if chance.random() < 0.85:
            body = self._broken(body)
        if chance.random() < 0.05:
            header = self._broken(header)
        return header + body

    def _login(self) -> bytes:
        """A token of a login that is no token, but not far from one."""
        chance = self.chance
        pieces = [chance.choice(LOGIN_PIECES) for _ in range(chance.randrange(1, 6))]
        token = b"".join(piece * chance.choice(REPEATED) for piece in pieces)
        return self._header(sasl.AUTHENTICATE_KEY, 0) + struct.pack(">i", len(token)) + token

    def _follower_ask(self) -> bytes:
        chance = self.chance
        low, high = (abs(chance.choice(NUMBERS[:-1])) & 0x7FFFFFFF for _ in range(2))
        topic = UUID(int=chance.getrandbits(128))
        items = [((topic, at), low, high, low, high, low) for at in range(chance.randrange(4))]
        ask = follower_fetch.Ask(2, low, high, low, high, low)
        header = follower_fetch.asker("tidelog-node-2-to-1", "cluster")
        gone = [(topic, 7)] if chance.random() < 0.3 else []
        return bytes(follower_fetch.encode_ask(header, 1, ask, items, gone)[4:])

    def _header(self, key: int, version: int) -> bytes:
        chance = self.chance
        client = chance.choice(CLIENT_IDS)
        encoded = b"" if client is None else client.encode()
        size = -1 if client is None else len(encoded)
        tags = b""
        if messages.is_flexible(key, version):
            tags = chance.choice(TAGS) if chance.random() < 0.03 else b"\x00"
        return _HEADER.pack(key, version, chance.getrandbits(31), size) + encoded + tags

    def _bodies_of(self, key: int, version: int) -> list[bytes]:
        found = self._bodies.get((key, version))
        if found is None:
            schema = load_request_schema(key, version)
            found = self._bodies[key, version] = [self._body(schema) for _ in range(BODIES_EACH)]
        return found

    def _body(self, schema: type[Any]) -> bytes:
        out = io.BytesIO()
        entity_writer(schema)(out, self._entity(schema))
        return out.getvalue()

    def _entity(self, schema: type[Any]) -> Any:
        hints = get_type_hints(schema)
        return schema(**{field.name: self._value(field, hints[field.name]) for field in fields(schema)})

    def _value(self, field: Field[Any], hint: Any) -> Any:
        kind = hint
        if get_origin(hint) is UnionType:
            kind = next(each for each in get_args(hint) if each is not NoneType)
            if self.chance.random() < 0.2:
                return None
        if get_origin(kind) is tuple:
            element = get_args(kind)[0]
            return tuple(self._value(field, element) for _ in range(self.chance.choice((0, 1, 1, 2, 3))))
        if hasattr(kind, "__flexible__"):
            return self._entity(kind)
        return self._primitive(str(field.metadata["kafka_type"]))

    def _primitive(self, kafka_type: str) -> Any:
        chance = self.chance
        match kafka_type:
            case "bool":
                return chance.random() < 0.5
            case "float64":
                return chance.choice((0.0, -1.0, 1e300))
            case "string":
                return chance.choice(TEXTS)
            case "bytes" | "records":
                return chance.choice((b"", b"n,,n=user,r=nonce", chance.randbytes(70)))
            case "uuid":
                return UUID(int=chance.getrandbits(128))
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=chance.choice((0, 1, -1, (1 << 31) - 1)))
            case "datetime_i64":
                return datetime.fromtimestamp(chance.choice((0, 1, 10**9)), UTC)
            case "error_code":
                return ErrorCode.NONE
        return self._number(kafka_type)

    def _number(self, kafka_type: str) -> int:
        bits = int(kafka_type.removeprefix("u").removeprefix("int"))
        number = self.chance.choice(NUMBERS)
        if kafka_type.startswith("u"):
            return abs(number) & ((1 << bits) - 1)
        return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, number))

    def _broken(self, body: bytes) -> bytes:
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


def _served() -> list[tuple[int, int]]:
    """Those of clients and those of nodes: anybody may send either."""
    of_clients = [(api.key, v) for api in SERVED.values() for v in range(api.oldest, api.newest + 1)]
    of_nodes = [(key, v) for key in BY_API for v in schema_name_map[messages.name_of(key)]]
    return sorted({*of_clients, *of_nodes, *_shapes()})


def _shapes() -> Iterator[tuple[int, int]]:
    """Produce again in all versions: its parser is written by hand."""
    yield from ((produce.API_KEY, v) for v in range(produce.VERSIONS[0], produce.VERSIONS[1] + 1))
