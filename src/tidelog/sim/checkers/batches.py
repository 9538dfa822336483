"""Which batches lie in a log, and which on a disk whose process is dead."""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.errors import CorruptBatch
from tidelog.log.log import Log
from tidelog.protocol.batch import BatchHeader, check, iterate
from tidelog.protocol.records import decode_batch
from tidelog.sim.disk import SimulatedDisk

Batch = tuple[int, int, int]
"""(next offset, leader epoch, CRC)"""

READ_AT_ONCE_BYTES = 1 << 20


class Entry(NamedTuple):
    """One record, as a reader of the log finds it."""

    offset: int
    epoch: int
    value: bytes


def batches_between(log: Log, start: int, end: int) -> list[tuple[int, Batch]]:
    """The batches in a range of offsets, by base offset."""
    return [
        (header.base_offset, (header.next_offset, header.leader_epoch, header.crc))
        for _, header in _headers(log, start, end)
    ]


def entries_between(log: Log, start: int, end: int) -> list[Entry]:
    """The records in a range of offsets, without the markers brokers write for themselves."""
    return [entry for batch, _ in _headers(log, start, end) for entry in entries(batch)]


def _headers(log: Log, start: int, end: int) -> Iterator[tuple[memoryview, BatchHeader]]:
    offset = max(start, log.start_offset)
    while offset < end:
        data = memoryview(log.read(offset, READ_AT_ONCE_BYTES, end, at_least_one_batch=True).read())
        for position, header in iterate(data):
            yield data[position : position + header.size], header
            offset = header.next_offset


def entries(data: memoryview) -> Iterator[Entry]:
    for position, header in iterate(data):
        if not header.is_control:
            batch = data[position : position + header.size]
            for record in decode_batch(batch):
                yield Entry(record.offset, header.leader_epoch, record.value or b"")


def end_on_disk(disk: SimulatedDisk, directory: str) -> int:
    """Where a log ends that nobody has open: behind the last batch that is whole, without a gap before it."""
    end = -1
    for path, data in disk.contents(directory).items():
        if not path.endswith(".log"):
            continue
        base = int(path.rpartition("/")[2].removesuffix(".log"))
        if end not in (-1, base):
            break
        end, whole = _end_of_segment(data, base)
        if not whole:
            break
    return max(end, 0)


def _end_of_segment(data: bytes, base: int) -> tuple[int, bool]:
    """Its end offset, and whether nothing but whole batches is in it."""
    end, position = base, 0
    while position < len(data):
        try:
            header = check(data, position)
        except CorruptBatch:
            return end, False
        end = header.next_offset
        position += header.size
    return end, True
