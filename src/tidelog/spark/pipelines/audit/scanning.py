"""The batches of a replica as rows: header fields, whether the bytes match, and a digest.

Works on batches, not on records, in the executors; only if two replicas differ are records opened, to say
which.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from tidelog.errors import CorruptBatch
from tidelog.protocol import batch as batches
from tidelog.protocol.records import decode_batch
from tidelog.spark.pipelines.audit.replicas import Replica, Unreadable

SCHEMA = pa.schema(
    [
        ("broker", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("number", pa.int64()),  # of the batch in its replica
        ("base_offset", pa.int64()),
        ("next_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("base_sequence", pa.int32()),
        ("digest", pa.binary()),
        ("fault", pa.string()),  # why the bytes are not a valid batch; null: they are one
        ("unread", pa.string()),  # why the rest of the replica cannot be read; such a row is no batch
        ("place", pa.string()),
    ]
)
DDL = (
    "broker string, topic string, partition int, number long, base_offset long, next_offset long, "
    "leader_epoch int, producer_id long, producer_epoch int, base_sequence int, digest binary, fault string, "
    "unread string, place string"
)
_ROWS_PER_BATCH = 10_000


def scan_all(replicas: Iterable[Replica]) -> Iterator[pa.RecordBatch]:
    return in_batches((row for replica in replicas for row in scan(replica)), SCHEMA)


def in_batches(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    pending: list[dict[str, Any]] = []
    for row in rows:
        pending.append(row)
        if len(pending) >= _ROWS_PER_BATCH:
            yield pa.RecordBatch.from_pylist(pending, schema)
            pending = []
    yield pa.RecordBatch.from_pylist(pending, schema)


def scan(replica: Replica) -> Iterator[dict[str, Any]]:
    """One row for each batch; the rest of a file after an invalid batch is one row with its fault, and what
    cannot be read is one row with the reason.
    """
    whose = {"broker": replica.broker, "topic": replica.topic, "partition": replica.partition}
    number, reached = 0, replica.start_offset
    try:
        for row, place in _rows(replica):
            number += 1
            reached = max(reached, row.get("next_offset", reached))
            yield {**whose, "number": number, "place": place, **row}
    except Unreadable as error:
        yield {**whose, "base_offset": reached, "unread": str(error), "place": ""}


def _rows(replica: Replica) -> Iterator[tuple[dict[str, Any], str]]:
    for place, data, is_last in replica.read():
        position = 0
        while position < len(data):
            row, size = _row(data, position)
            if size == 0 and is_last:
                break  # a batch that is being written, or was cut by the size of a fetch
            yield row, f"{place}, byte {position}"
            if size == 0:
                break
            position += size


def _row(data: memoryview, position: int) -> tuple[dict[str, Any], int]:
    """The batch at ``position``, and its size; 0 if the start of the next one is unknown."""
    left = len(data) - position
    if left < batches.HEADER_SIZE:
        return {"fault": f"{left} bytes are no batch"}, 0
    header = batches.parse_header(data, position)
    if header.size < batches.HEADER_SIZE or header.size > left:
        return {"base_offset": header.base_offset, "fault": f"a batch of {header.size} bytes does not fit"}, 0
    whole = data[position : position + header.size]
    fault = None
    try:
        batches.check(whole)
    except CorruptBatch as error:
        fault = str(error)
    return {
        "base_offset": header.base_offset,
        "next_offset": header.next_offset,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": -1 if header.is_control else header.base_sequence,
        "digest": hashlib.blake2b(whole, digest_size=16).digest(),
        "fault": fault,
    }, header.size


def batch_at(replica: Replica, offset: int) -> memoryview | None:
    """The batch that begins at or holds the offset."""
    try:
        return _batch_at(replica, offset)
    except Unreadable:
        return None


def _batch_at(replica: Replica, offset: int) -> memoryview | None:
    for _, data, _ in replica.read(offset):
        for position, header in batches.iterate(data):
            if header.base_offset <= offset < header.next_offset:
                return data[position : position + header.size]
            if header.base_offset > offset:
                return None
    return None


def first_difference(one: memoryview | None, other: memoryview | None) -> str:
    """In words: which record, or else which field, differs."""
    if one is None or other is None:
        return "only one of them has a batch there"
    try:
        for left, right in zip(decode_batch(one), decode_batch(other), strict=True):
            if left != right:
                fields = [name for name in left._fields if getattr(left, name) != getattr(right, name)]
                return f"record {left.offset} differs in {', '.join(fields)}"
    except (CorruptBatch, ValueError) as error:
        return f"the records cannot be compared ({error})"
    headers = batches.parse_header(one), batches.parse_header(other)
    fields = [name for name in headers[0]._fields if getattr(headers[0], name) != getattr(headers[1], name)]
    return f"equal records, but the headers differ in {', '.join(fields) or 'nothing'}"
