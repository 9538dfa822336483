"""Replicas of compacted topics, compared record by record: each broker compacts by itself, so their batches
differ.

Owns what must agree, whatever each of them has removed so far, below the high watermark:

* Records at the same offset are the same record.
* The newest record of each key is the same. A replica must have the newest record of a key that any replica
  holds below this replica's own end. Compaction removes only records that a newer one of the same key
  replaces, aborted records, and, some time later, tombstones: a key whose newest record is a tombstone may be
  gone as a whole, but its older records may not be left.

A record of a transaction counts when its marker has been read. Behind the first record whose marker a replica
lacks, nothing is demanded of that replica. Records without a key are compared by offset only.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.errors import CorruptBatch
from tidelog.protocol import batch as batches
from tidelog.protocol.batch import BatchHeader
from tidelog.protocol.markers import decode_marker
from tidelog.protocol.records import Record, decode_batch
from tidelog.spark.pipelines.audit.replicas import Replica, Unreadable
from tidelog.spark.pipelines.audit.scanning import in_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        ("broker", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),  # a digest of it; null: none, or a control record
        ("digest", pa.binary()),
        ("is_tombstone", pa.bool_()),
        ("outcome", pa.string()),  # of its transaction: committed (also without one), aborted, open, control
    ]
)
DDL = (
    "broker string, topic string, partition int, offset long, key binary, digest binary, "
    "is_tombstone boolean, outcome string"
)
LIMITS_DDL = "broker string, topic string, partition int, start long, limit long"

_SAME_OFFSET = """
select 'differs' as kind, topic, partition, offset, broker,
  concat('record ', offset, ' is another one than ', first_broker, ' has') as detail,
  'compared by record' as place
from (
  select *, first_value(broker) over same as first_broker, first_value(digest) over same as first_digest
  from {records} window same as (partition by topic, partition, offset order by broker)
) where digest <> first_digest
"""

_NEWEST = """
select l.topic, l.partition, l.broker, r.key,
  max(r.offset) as offset, max_by(r.broker, r.offset) as holder,
  max_by(r.is_tombstone, r.offset) as is_deleted,
  max(case when r.broker = l.broker then r.offset end) as own
from {records} r join {limits} l on r.topic = l.topic and r.partition = l.partition
  and r.offset >= l.start and r.offset < l.limit
where r.key is not null and r.outcome = 'committed'
group by l.topic, l.partition, l.broker, r.key
"""

_LACKING = """
select 'differs' as kind, topic, partition, offset, broker,
  concat('the newest record of a key is at offset ', offset, ' on ', holder, ', and here ',
         coalesce(concat('at offset ', own), 'there is none')) as detail,
  'compared by key' as place
from {newest} where own < offset or (own is null and not is_deleted)
"""

_COMPARED = """
select topic, partition, broker, count(*) as records from (
  select topic, partition, broker, count(*) over (partition by topic, partition, offset) as copies
  from {records}
) where copies > 1 group by topic, partition, broker
"""


@dataclass(frozen=True, slots=True)
class CompactedState:
    """How much of a replica could be compared with others."""

    topic: str
    partition: int
    broker: str
    records: int  # at offsets that another replica has, too
    keys: int  # whose newest record was looked for


def scan_records(replicas: Iterable[Replica]) -> Iterator[pa.RecordBatch]:
    return in_batches((row for replica in replicas for row in _rows(replica)), SCHEMA)


def _rows(replica: Replica) -> Iterator[dict[str, Any]]:
    whose = {"broker": replica.broker, "topic": replica.topic, "partition": replica.partition}
    markers = _Markers(replica)
    for batch, header in _sound_batches(replica):
        for record in decode_batch(batch, header):
            yield {**whose, **_row(record, header, markers)}


def _sound_batches(replica: Replica) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Damage and what cannot be read is reported by the scan of batches."""
    try:
        for _, data, _ in replica.read():
            for position, header in batches.iterate(data):
                batch = data[position : position + header.size]
                try:
                    batches.check(batch)
                except CorruptBatch:
                    continue
                yield batch, header
    except (Unreadable, CorruptBatch):
        return


def _row(record: Record, header: BatchHeader, markers: "_Markers") -> dict[str, Any]:
    is_control = header.is_control
    # Compaction writes the time from which a marker may be removed into its batch.
    told = (record.key, record.value) if is_control else record[1:]
    return {
        "offset": record.offset,
        "key": None if is_control or record.key is None else _digest(record.key),
        "digest": _digest(repr(told).encode()),
        "is_tombstone": record.value is None,
        "outcome": markers.outcome(record.offset, header),
    }


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


class _Markers:
    """Where each producer's transactions end, and how."""

    def __init__(self, replica: Replica) -> None:
        self._offsets: dict[int, list[int]] = {}
        self._commits: dict[int, list[bool]] = {}
        for batch, header in _sound_batches(replica):
            if header.is_control and (marker := decode_marker(batch, header)) is not None:
                self._offsets.setdefault(header.producer_id, []).append(header.base_offset)
                self._commits.setdefault(header.producer_id, []).append(marker.commits)

    def outcome(self, offset: int, header: BatchHeader) -> str:
        if header.is_control:
            return "control"
        if not header.is_transactional:
            return "committed"
        following = bisect_right(self._offsets.get(header.producer_id, []), offset)
        ends = self._commits.get(header.producer_id, [])
        if following == len(ends):
            return "open"
        return "committed" if ends[following] else "aborted"


def compare(
    spark: "SparkSession", records: "DataFrame", limits: "DataFrame"
) -> "tuple[DataFrame, list[CompactedState]]":
    """Findings, and what was compared. ``records``: those below the high watermark; ``limits``: for each
    replica where its log starts, and up to where it must have the newest record of every key.
    """
    newest = spark.sql(_NEWEST, records=records, limits=limits)
    found = spark.sql(_SAME_OFFSET, records=records).unionByName(spark.sql(_LACKING, newest=newest))
    keys = newest.groupBy("topic", "partition", "broker").count()
    by_key = {(row["topic"], row["partition"], row["broker"]): row["count"] for row in keys.collect()}
    by_offset = {
        (row["topic"], row["partition"], row["broker"]): row["records"]
        for row in spark.sql(_COMPARED, records=records).collect()
    }
    states = [
        CompactedState(*place, by_offset.get(place, 0), by_key.get(place, 0))
        for place in sorted(by_key.keys() | by_offset.keys())
    ]
    return found, states


def first_open(records: "DataFrame") -> dict[tuple[str, int, str], int]:
    """For each replica that has one: the first record whose transaction has no marker there."""
    rows = records.where("outcome = 'open'").groupBy("topic", "partition", "broker").agg({"offset": "min"})
    return {(row["topic"], row["partition"], row["broker"]): row["min(offset)"] for row in rows.collect()}
