"""Small documents as JSON and as Avro with a schema id in front, and a registry that has the schema."""

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

COLUMNS = "id long, name string, amount double, city string, note string"
SCHEMA = {
    "type": "record",
    "name": "Document",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "city", "type": ["null", "string"]},
        {"name": "note", "type": "string"},
    ],
}
SCHEMA_ID = 1
SUBJECT = "documents-value"

_CITIES = ("Berlin", "Lisboa", "Oslo")


def document(number: int, size: int) -> bytes:
    """Like a small JSON document, cut to a size."""
    start = b'{"id":%08d,"name":"customer %d","amount":%d.25,"city":"%s","note":"' % (
        number,
        number * 7919 % 10_007,
        number % 1000,
        _CITIES[number % 3].encode(),
    )
    filler = b"%016x" % (number * 2_654_435_761 % (1 << 64)) * (size // 16 + 1)
    return (start + filler)[: size - 2] + b'"}'


def as_json(number: int, size: int) -> bytes:
    note = f"{number * 2_654_435_761 % (1 << 64):016x}"
    name, amount, city = f"customer {number * 7919 % 10_007}", number % 1000 + 0.25, _CITIES[number % 3]
    said = {"id": number, "name": name, "amount": amount, "city": city, "note": note}
    return json.dumps(said, separators=(",", ":")).encode()


def as_avro(number: int, size: int) -> bytes:
    """What Confluent's serializer writes; by hand, so that the bench does not depend on our encoder."""
    said = json.loads(as_json(number, size))
    return (
        struct.pack(">bI", 0, SCHEMA_ID)
        + _number(said["id"])
        + _text(said["name"])
        + struct.pack("<d", said["amount"])
        + _number(1)
        + _text(said["city"])
        + _text(said["note"])
    )


CONTENTS: dict[str, Callable[[int, int], bytes]] = {"document": document, "json": as_json, "avro": as_avro}


def _number(number: int) -> bytes:
    left, out = number << 1, bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _text(text: str) -> bytes:
    return _number(len(text.encode())) + text.encode()


@contextmanager
def registry() -> Iterator[str]:
    """The address of a registry with this one schema."""
    answer = json.dumps(
        {"id": SCHEMA_ID, "version": 1, "subject": SUBJECT, "schema": json.dumps(SCHEMA)}
    ).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
