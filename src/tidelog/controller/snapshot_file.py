"""A snapshot as bytes: record batches like those of a log, between a header and a footer.

========== =====================================================================================
first      a control record SNAPSHOT_HEADER: the id of this snapshot
then       a control record KRAFT_VOTERS: the voter set (encoded by the replication; not read here)
then       records without keys, one text of the image each
last       a control record SNAPSHOT_FOOTER: the number of records
========== =====================================================================================

The footer proves that nothing is missing at the end, and the batches' CRCs that nothing before is damaged.
The file name is Kafka's: ``<end offset>-<epoch>.checkpoint``.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from tidelog.controller.image import ClusterImage
from tidelog.controller.snapshot import image_of, texts_of
from tidelog.errors import CorruptBatch, StorageError
from tidelog.protocol.batch import check
from tidelog.protocol.records import (
    ControlType,
    Record,
    control_key,
    control_type,
    decode_batch,
    encode_batch,
)
from tidelog.types import SnapshotId

SUFFIX = ".checkpoint"
BATCH_BYTES = 1 << 18

_NAME = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


class Contents(NamedTuple):
    """The contents of a snapshot."""

    snapshot: SnapshotId
    image: ClusterImage
    voters: bytes  # empty: the snapshot has no voter set


class _Header(msgspec.Struct):
    end_offset: int
    epoch: int
    version: int = 0


class _Footer(msgspec.Struct):
    records: int
    version: int = 0


def name_of(snapshot: SnapshotId) -> str:
    return f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}{SUFFIX}"


def snapshot_named(name: str) -> SnapshotId | None:
    """The snapshot whose file has this name; None for other files."""
    match = _NAME.fullmatch(name)
    return None if match is None else SnapshotId(int(match[1]), int(match[2]))


def encode(contents: Contents, now_ms: int) -> Iterator[bytes | bytearray]:
    """The file, batch by batch."""
    snapshot, image, voters = contents
    header = msgspec.json.encode(_Header(snapshot.end_offset, snapshot.epoch))
    writer = _Writer(snapshot.epoch, now_ms)
    yield writer.control(ControlType.SNAPSHOT_HEADER, header)
    if voters:
        yield writer.control(ControlType.KRAFT_VOTERS, voters)
    first = writer.next_offset
    yield from writer.batches(texts_of(image))
    footer = _Footer(writer.next_offset - first)
    yield writer.control(ControlType.SNAPSHOT_FOOTER, msgspec.json.encode(footer))


class _Writer:
    def __init__(self, epoch: int, now_ms: int) -> None:
        self._epoch = epoch
        self._now_ms = now_ms
        self.next_offset = 0

    def control(self, kind: ControlType, value: bytes) -> bytearray:
        return self._batch([self._record(control_key(kind), value)], control=True)

    def batches(self, texts: Iterable[bytes]) -> Iterator[bytearray]:
        records: list[Record] = []
        size = 0
        for text in texts:
            records.append(self._record(None, text))
            size += len(text)
            if size >= BATCH_BYTES:
                yield self._batch(records)
                records, size = [], 0
        if records:
            yield self._batch(records)

    def _record(self, key: bytes | None, value: bytes) -> Record:
        record = Record(self.next_offset, self._now_ms, key, value, ())
        self.next_offset += 1
        return record

    def _batch(self, records: list[Record], *, control: bool = False) -> bytearray:
        return encode_batch(records, leader_epoch=max(self._epoch, 0), control=control)


def decode(data: bytes) -> Contents:
    """Raises StorageError with the reason if the file is damaged."""
    try:
        return _decode(memoryview(data))
    except (CorruptBatch, msgspec.DecodeError) as error:
        raise StorageError(str(error)) from None


def _decode(data: memoryview) -> Contents:
    header: _Header | None = None
    footer: _Footer | None = None
    voters = b""
    texts: list[bytes] = []
    position = 0
    while position < len(data) and footer is None:
        batch = check(data, position)
        for record in decode_batch(data[position : position + batch.size], batch):
            value = record.value or b""
            kind = control_type(record.key) if batch.is_control else None
            if kind is None:
                texts.append(value)
            elif kind is ControlType.SNAPSHOT_HEADER:
                header = msgspec.json.decode(value, type=_Header)
            elif kind is ControlType.KRAFT_VOTERS:
                voters = value
            elif kind is ControlType.SNAPSHOT_FOOTER:
                footer = msgspec.json.decode(value, type=_Footer)
        position += batch.size
    if header is None or footer is None or footer.records != len(texts) or position != len(data):
        raise StorageError("the snapshot is incomplete")
    return Contents(SnapshotId(header.end_offset, header.epoch), image_of(texts), voters)
