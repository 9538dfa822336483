"""All replicas of topics, compared: equal below the high watermark, intact, without gaps, duplicates or
disorder.

Owns the job and its report. Replicas are found by :mod:`.replicas`, read to rows by :mod:`.scanning` in
Spark's tasks, one for each replica, and judged by the queries of :mod:`.judging`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.audit import judging
from tidelog.spark.pipelines.audit.replicas import Replica, behind_brokers, in_directories
from tidelog.spark.pipelines.audit.scanning import DDL, batch_at, first_difference, scan_all
from tidelog.spark.pipelines.running import Progress, Tell, tell_nobody

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FINDINGS_SHOWN = 100
_UNKNOWN = 2**62  # as a high watermark: everything counts as committed


@dataclass(frozen=True, slots=True)
class Audit:
    """Which topics, and where their replicas are: on brokers, or in directories."""

    topics: list[str]
    bootstrap: str = ""
    directories: list[str] = field(default_factory=list)
    compacted: list[str] = field(default_factory=list)  # topics in which gaps are allowed
    options: Mapping[str, str] = field(default_factory=dict)  # kafka.* for the connection

    def replicas(self) -> list[Replica]:
        if not self.topics:
            raise OptionError("No topic is named.")
        if self.directories:
            return in_directories(self.directories, self.topics)
        return behind_brokers(self.bootstrap, self.topics, self.options)


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

    @property
    def holds(self) -> bool:
        return not self.counts


def audit(spark: "SparkSession", job: Audit, *, tell: Tell = tell_nobody) -> AuditReport:
    """Read every replica and judge; findings are in the report, nothing is raised."""
    replicas = job.replicas()
    tell(Progress(0, 0.0, 0, f"of {len(replicas)} replicas"))
    batches = _scanned(spark, replicas).persist()
    try:
        watermarks = _watermarks(replicas)
        rows = [(topic, partition, offset) for (topic, partition), offset in watermarks.items()]
        table = spark.createDataFrame(rows, "topic string, partition int, high_watermark long")
        found = judging.findings(spark, batches, table, job.compacted).persist()
        reached = {
            (row["topic"], row["partition"], row["broker"]): (row["start"], row["end"])
            for row in judging.ends(spark, batches).collect()
        }
        states = [_state(one, reached, watermarks[one.topic, one.partition]) for one in replicas]
        counts = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
        first = (
            found.orderBy("topic", "partition", "offset", "broker", "kind").limit(FINDINGS_SHOWN).collect()
        )
        tell(Progress(len(replicas), 0.0, 0, f"of {len(replicas)} replicas"))
        findings = _explained([Finding(**row.asDict()) for row in first], replicas)
        found.unpersist()
        return AuditReport(
            sorted(states, key=lambda one: (one.topic, one.partition, one.broker)), findings, counts
        )
    finally:
        batches.unpersist()


def _scanned(spark: "SparkSession", replicas: list[Replica]) -> "DataFrame":
    """One task for each replica: disks and brokers are read in parallel."""

    def scan(numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in numbers:
            yield from scan_all(replicas[number] for number in batch.column(0).to_pylist())

    return spark.range(0, len(replicas), 1, len(replicas)).mapInArrow(scan, DDL)


def _watermarks(replicas: list[Replica]) -> dict[tuple[str, int], int]:
    """For each partition: the highest that any replica knows; without one, everything counts as committed."""
    known: dict[tuple[str, int], int] = {}
    for one in replicas:
        place = (one.topic, one.partition)
        known[place] = max(known.get(place, -1), one.high_watermark)
    return {place: offset if offset >= 0 else _UNKNOWN for place, offset in known.items()}


def _state(
    replica: Replica, reached: Mapping[tuple[str, int, str], tuple[int, int]], watermark: int
) -> ReplicaState:
    """One without a single batch counts as well: it lacks everything."""
    topic, partition, broker = replica.topic, replica.partition, replica.broker
    start, end = reached.get((topic, partition, broker), (0, 0))
    behind = max(watermark - end, 0) if watermark != _UNKNOWN else 0
    return ReplicaState(topic, partition, broker, start, end, min(end, watermark), behind)


def _explained(findings: list[Finding], replicas: list[Replica]) -> list[Finding]:
    """The first difference of each partition with the record that differs."""
    explained: list[Finding] = []
    done: set[tuple[str, int]] = set()
    for one in findings:
        place = (one.topic, one.partition)
        if one.kind != "differs" or place in done:
            explained.append(one)
            continue
        done.add(place)
        sides = {
            replica.broker: replica for replica in replicas if (replica.topic, replica.partition) == place
        }
        reference = one.detail.removeprefix("not the batch that ").removesuffix(" has")
        difference = first_difference(
            batch_at(sides[one.broker], one.offset), batch_at(sides[reference], one.offset)
        )
        explained.append(replace(one, detail=f"{one.detail}: {difference}"))
    return explained


__all__ = ["Audit", "AuditReport", "Finding", "ReplicaState", "audit"]
