"""All replicas of topics, compared: equal below the high watermark, intact, without gaps, duplicates or
disorder.

Owns the job and its report. Replicas are found by :mod:`.segments` or :mod:`.brokers`, read to rows by
:mod:`.scanning` in Spark's tasks, one for each replica, and judged by the queries of :mod:`.judging`; those
of compacted topics record by record in :mod:`.compacted`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.audit import compacted, judging
from tidelog.spark.pipelines.audit.brokers import behind_brokers, compacted_topics
from tidelog.spark.pipelines.audit.compacted import CompactedState
from tidelog.spark.pipelines.audit.replicas import Replica
from tidelog.spark.pipelines.audit.scanning import DDL, batch_at, first_difference, scan_all
from tidelog.spark.pipelines.audit.segments import in_directories
from tidelog.spark.pipelines.running import Progress, Tell, discard

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FINDINGS_SHOWN = 100
_UNKNOWN = 2**62  # as a high watermark: everything counts as committed

_Place = tuple[str, int, str]
_Reached = Mapping[_Place, tuple[int, int]]
_Scan = Callable[[Iterable[Replica]], "Iterator[pa.RecordBatch]"]


@dataclass(frozen=True, slots=True)
class Audit:
    """Which topics, and where their replicas are: on brokers, or in directories."""

    topics: list[str]
    bootstrap: str = ""
    directories: list[str] = field(default_factory=list)
    compacted: list[str] = field(default_factory=list)  # topics compared by record; gaps are allowed
    options: Mapping[str, str] = field(default_factory=dict)  # kafka.* for the connection

    def replicas(self) -> list[Replica]:
        if not self.topics:
            raise OptionError("No topic is named.")
        if self.directories:
            return in_directories(self.directories, self.topics)
        return behind_brokers(self.bootstrap, self.topics, self.options)

    def compacted_topics(self) -> list[str]:
        """Brokers know which are; of directories only the caller does."""
        if self.directories:
            return self.compacted
        return [*self.compacted, *compacted_topics(self.bootstrap, self.topics, self.options)]


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a rule is broken."""

    kind: str
    topic: str
    partition: int
    offset: int
    broker: str
    detail: str
    place: str


@dataclass(frozen=True, slots=True)
class ReplicaState:
    topic: str
    partition: int
    broker: str
    start_offset: int
    end_offset: int
    compared_to: int  # exclusive: up to here it was compared with the most complete replica
    behind: int  # offsets below the high watermark that it lacks


@dataclass(frozen=True, slots=True)
class AuditReport:
    replicas: list[ReplicaState]
    findings: list[Finding]  # the first ones, in the order of topic, partition and offset
    counts: dict[str, int]  # of all findings, by kind
    compacted: list[CompactedState] = field(default_factory=list)  # what was compared record by record

    @property
    def holds(self) -> bool:
        return not self.counts


def audit(spark: "SparkSession", job: Audit, *, tell: Tell = discard) -> AuditReport:
    """Read every replica and judge; findings are in the report, nothing is raised."""
    replicas, by_key = job.replicas(), job.compacted_topics()
    tell(Progress(0, 0.0, 0, f"of {len(replicas)} replicas"))
    rows = _scanned(spark, replicas, scan_all, DDL).persist()
    kept = [rows]
    try:
        watermarks = _watermarks(replicas)
        batches = rows.where("unread is null")
        reached = {
            (row["topic"], row["partition"], row["broker"]): (row["start"], row["end"])
            for row in judging.ends(spark, batches).collect()
        }
        found = judging.unread(spark, rows).unionByName(
            judging.findings(spark, batches, _table(spark, watermarks), by_key)
        )
        chosen = [one for one in replicas if one.topic in by_key]
        by_record: list[CompactedState] = []
        if chosen:
            records = _records(spark, chosen, watermarks).persist()
            kept.append(records)
            limits = _limits(chosen, compacted.first_open(records), reached, watermarks)
            more, by_record = compacted.compare(
                spark, records, spark.createDataFrame(limits, compacted.LIMITS_DDL)
            )
            found = found.unionByName(more)
        states = [_state(one, reached, watermarks[one.topic, one.partition]) for one in replicas]
        counts, findings = _collected(found, replicas)
        tell(Progress(len(replicas), 0.0, 0, f"of {len(replicas)} replicas"))
        states.sort(key=lambda one: (one.topic, one.partition, one.broker))
        return AuditReport(states, findings, counts, by_record)
    finally:
        for table in kept:
            table.unpersist()


def _collected(found: "DataFrame", replicas: list[Replica]) -> tuple[dict[str, int], list[Finding]]:
    found = found.persist()
    counts = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
    ordered = found.orderBy("topic", "partition", "offset", "broker", "kind")
    first = [Finding(**row.asDict()) for row in ordered.limit(FINDINGS_SHOWN).collect()]
    found.unpersist()
    return counts, _explained(first, replicas)


def _scanned(spark: "SparkSession", replicas: list[Replica], read: _Scan, columns: str) -> "DataFrame":
    """One task for each replica: disks and brokers are read in parallel."""

    def scan(numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in numbers:
            yield from read(replicas[number] for number in batch.column(0).to_pylist())

    return spark.range(0, len(replicas), 1, len(replicas)).mapInArrow(scan, columns)


def _records(
    spark: "SparkSession", replicas: list[Replica], watermarks: Mapping[tuple[str, int], int]
) -> "DataFrame":
    """The committed records of compacted topics."""
    rows = _scanned(spark, replicas, compacted.scan_records, compacted.DDL)
    committed = rows.join(_table(spark, watermarks), ["topic", "partition"]).where("offset < high_watermark")
    return committed.drop("high_watermark")


def _limits(
    replicas: list[Replica],
    undecided: Mapping[_Place, int],
    reached: _Reached,
    watermarks: Mapping[tuple[str, int], int],
) -> list[tuple[str, str, int, int, int]]:
    """For each replica where its log starts, and the end of what it must have the newest records of."""
    limits = []
    for one in replicas:
        place = (one.topic, one.partition, one.broker)
        end = min(reached.get(place, (0, 0))[1], watermarks[one.topic, one.partition])
        limits.append(
            (one.broker, one.topic, one.partition, one.start_offset, min(end, undecided.get(place, end)))
        )
    return limits


def _table(spark: "SparkSession", watermarks: Mapping[tuple[str, int], int]) -> "DataFrame":
    rows = [(topic, partition, offset) for (topic, partition), offset in watermarks.items()]
    return spark.createDataFrame(rows, "topic string, partition int, high_watermark long")


def _watermarks(replicas: list[Replica]) -> dict[tuple[str, int], int]:
    """For each partition: the highest that any replica knows; without one, everything counts as committed."""
    known: dict[tuple[str, int], int] = {}
    for one in replicas:
        place = (one.topic, one.partition)
        known[place] = max(known.get(place, -1), one.high_watermark)
    return {place: offset if offset >= 0 else _UNKNOWN for place, offset in known.items()}


def _state(replica: Replica, reached: _Reached, watermark: int) -> ReplicaState:
    """One without a single batch counts as well: it lacks everything."""
    topic, partition, broker = replica.topic, replica.partition, replica.broker
    empty = (replica.start_offset, replica.start_offset)
    start, end = reached.get((topic, partition, broker), empty)
    behind = max(watermark - end, 0) if watermark != _UNKNOWN else 0
    return ReplicaState(topic, partition, broker, start, end, min(end, watermark), behind)


def _explained(findings: list[Finding], replicas: list[Replica]) -> list[Finding]:
    """The first difference of each partition with the record that differs."""
    explained: list[Finding] = []
    done: set[tuple[str, int]] = set()
    for one in findings:
        place = (one.topic, one.partition)
        reference = judging.reference_in(one.detail)
        if one.kind != "differs" or reference is None or place in done:
            explained.append(one)
            continue
        done.add(place)
        sides = {
            replica.broker: replica for replica in replicas if (replica.topic, replica.partition) == place
        }
        difference = first_difference(
            batch_at(sides[one.broker], one.offset), batch_at(sides[reference], one.offset)
        )
        explained.append(replace(one, detail=f"{one.detail}: {difference}"))
    return explained


__all__ = ["Audit", "AuditReport", "CompactedState", "Finding", "ReplicaState", "audit"]
