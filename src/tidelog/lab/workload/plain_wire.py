"""Bytes of the plain client: a Produce with one record, and what came back.

Owns nothing but the encoding, in versions that every Kafka since 2.3 serves. Metadata and Fetch are those of
:mod:`tidelog.client.messages`.
"""

import struct

import crc32c

from tidelog.client.reader import Reader, string

PRODUCE_VERSION = 7
ACKS = {"all": -1, "-1": -1, "1": 1, "0": 1}  # without an acknowledgement there would be nothing to measure

_BATCH = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
_BODY = struct.Struct(">hiqqqhii")  # attributes … number of records
_NONE = -1


def batch(value: bytes, timestamp_ms: int) -> bytes:
    """A record batch (v2) with one record, of a producer that is not idempotent."""
    record = b"\x00\x00\x00\x01" + _varint(len(value)) + value + b"\x00"
    body = (
        _BODY.pack(0, 0, timestamp_ms, timestamp_ms, _NONE, _NONE, _NONE, 1) + _varint(len(record)) + record
    )
    tail = struct.pack(">I", crc32c.crc32c(body)) + body
    return _BATCH.pack(0, len(tail) + 5, _NONE, 2) + tail


def produce_request(topic: str, partition: int, records: bytes, acks: int, timeout_ms: int) -> bytes:
    head = struct.pack(">hhii", -1, acks, timeout_ms, 1)
    return head + string(topic) + struct.pack(">iii", 1, partition, len(records)) + records


def produced(body: memoryview) -> tuple[int, int]:
    """Error code and offset."""
    reader = Reader(body)
    reader.int32()
    reader.string()
    reader.int32()
    reader.int32()  # partition
    return reader.int16(), reader.int64()


def _varint(number: int) -> bytes:
    """Zigzag, as in record batches."""
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
