"""Record batches for raw requests, built and read by kafka-python's code: not by the code under test."""

import struct
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
HEADER_SIZE = 61
CRC_FROM = 21
Headers = Sequence[tuple[str, bytes | None]]


class Stored(NamedTuple):
    """A record as it came back from the broker."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def batch(
    *values: bytes | None,
    keys: Sequence[bytes | None] | None = None,
    headers: Headers = (),
    timestamps_ms: Sequence[int] | None = None,
    codec: str = "none",
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytearray:
    """One batch of these values. ``producer`` is (id, epoch, base sequence)."""
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], False, *producer, batch_size=1 << 30)
    now_ms = int(time.time() * 1000)  # an old time would make the batch a case for retention
    for number, value in enumerate(values):
        timestamp_ms = timestamps_ms[number] if timestamps_ms else now_ms
        key = keys[number] if keys else None
        assert builder.append(number, timestamp_ms, key, value, list(headers)) is not None
    return bytearray(builder.build())


def reseal(data: bytearray) -> bytearray:
    """Give a batch that was tampered with a CRC that fits it again."""
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[CRC_FROM:])))
    return data


def batches(data: bytes | None) -> list[Any]:
    """The whole batches at the start of a fetch answer."""
    found = []
    records = MemoryRecords(data or b"")
    while records.has_next():
        found.append(records.next_batch())
    return found


def records(data: bytes | None) -> list[Stored]:
    """The records of a fetch answer; every batch's CRC is checked on the way."""
    found = []
    for each in batches(data):
        assert each.validate_crc(), "a batch came back with a CRC that does not fit"
        found += [Stored(r.offset, r.timestamp, r.key, r.value, r.headers) for r in each]
    return found


def values(data: bytes | None) -> list[bytes | None]:
    return [record.value for record in records(data)]
