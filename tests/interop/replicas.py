"""The replicas of a partition as they lie on disk, read without the code under test."""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tidelog.testing import Broker

_HEAD = struct.Struct(">qi")  # base offset, length of what follows
_LAST_OFFSET_DELTA = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT = 23


class Batch(NamedTuple):
    base_offset: int
    end_offset: int
    data: bytes  # all of it, offset and leader epoch included


def segments(broker: Broker, topic: str, partition: int = 0) -> list[Path]:
    return sorted((broker.data_directory / f"{topic}-{partition}").glob("*.log"))


def batches(broker: Broker, topic: str, partition: int = 0) -> Iterator[Batch]:
    for path in segments(broker, topic, partition):
        data = path.read_bytes()
        at = 0
        while at + _HEAD.size <= len(data):
            base_offset, length = _HEAD.unpack_from(data, at)
            end = at + _HEAD.size + length
            if length <= 0 or end > len(data):
                break  # the unwritten rest of a segment
            (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, at + _LAST_OFFSET_DELTA_AT)
            yield Batch(base_offset, base_offset + delta + 1, data[at:end])
            at = end


def assert_identical(brokers: Iterable[Broker], topic: str, partition: int, end_offset: int) -> None:
    """Every replica holds the same bytes from the first offset to ``end_offset``, exclusive."""
    expected: list[Batch] | None = None
    for broker in brokers:
        found = [batch for batch in batches(broker, topic, partition) if batch.base_offset < end_offset]
        held = found[-1].end_offset if found else 0
        assert held >= end_offset, f"{broker!r} holds {topic}-{partition} up to {held}, not {end_offset}"
        expected = expected or found
        for mine, theirs in zip(found, expected, strict=True):
            assert mine == theirs, f"{broker!r} differs in {topic}-{partition} at offset {mine.base_offset}"
