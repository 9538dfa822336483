"""An archive compared with its topics: every committed record is there once, and nothing else.

Owns the job and its report. :mod:`.facts` has the queries, :mod:`.judging` what they mean.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tidelog.client.cluster import Cluster
from tidelog.client.topic_settings import topic_setting
from tidelog.spark.client_settings import client_settings
from tidelog.spark.options import OptionError, Options
from tidelog.spark.pipelines.archive_view import Asked, look
from tidelog.spark.pipelines.running import Progress, Tell, discard
from tidelog.spark.pipelines.source import Topics
from tidelog.spark.pipelines.stepping import is_outdated
from tidelog.spark.pipelines.tables import Place, Position, Span, Table, TableError
from tidelog.spark.pipelines.tables.opening import open_existing
from tidelog.spark.pipelines.verify import facts
from tidelog.spark.pipelines.verify.judging import (
    KEPT,
    PAST,
    STRAY,
    Finding,
    Judged,
    Part,
    PlaceState,
    TopicNow,
    adopting,
    common_span,
    findings_of,
    is_same_topic,
    state_of,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FINDINGS_SHOWN = 100
_LOOKS_MAX = 10
_TRIES = 5
_FILE_GONE = "FAILED_READ_FILE.FILE_NOT_EXIST"  # One of Spark's error conditions.
_DETAILS = {
    "missing": "the topic has this record, and the archive does not",
    "differs": "the archive and the topic have different records",
    "unknown": "the archive has this record, and the topic does not",
}


@dataclass(frozen=True, slots=True)
class Verify:
    """Which archive, and the cluster that its topics are in."""

    target: str
    bootstrap: str
    topics: list[str] = field(default_factory=list)  # empty: all that are in the archive
    options: Mapping[str, str] = field(default_factory=dict)  # kafka.* for the connection
    table_options: Mapping[str, str] = field(default_factory=dict)  # of the table's format

    def source(self, topics: Iterable[str]) -> Topics:
        return Topics(self.bootstrap, ",".join(sorted(topics)), options=self.options)


@dataclass(frozen=True, slots=True)
class VerifyReport:
    places: list[PlaceState]
    findings: list[Finding]  # the first ones, in the order of topic, partition and offset
    counts: dict[str, int]  # of all findings, by kind
    covers_values: bool  # False: the archive was made without the original values
    compacted_away: int = 0  # archived records that compaction has removed from their topics since

    @property
    def holds(self) -> bool:
        return not self.counts


def verify(spark: "SparkSession", job: Verify, *, tell: Tell = discard) -> VerifyReport:
    """Compare; findings are in the report, nothing is raised. Begun again if something was removed while it
    was read: the topic's oldest records by retention, or small files by a merge.
    """
    for _ in range(_TRIES):
        try:
            return _verified(spark, job, tell)
        except Exception as failure:
            if not is_outdated(failure) and _FILE_GONE not in str(failure):
                raise
            last = failure
    what = "files of the archive were" if _FILE_GONE in str(last) else "records of its topics were"
    raise TableError(
        f"{job.target} could not be verified, because {what} removed while they were read, {_TRIES} times: "
        "do so while no archive run adds to it and no topic is deleted, or one topic at a time (--topic)."
    ) from last


def _verified(spark: "SparkSession", job: Verify, tell: Tell) -> VerifyReport:
    table = open_existing(spark, job.target, job.table_options)
    position, added, (archived, has_value) = _state(table)
    if job.topics:
        archived = archived.where(archived.topic.isin(job.topics))
    spans = dict(position.spans) or facts.spans_of_rows(archived)
    spans = {place: span for place, span in spans.items() if not job.topics or place.topic in job.topics}
    if not spans:
        of = f" of {', '.join(job.topics)}" if job.topics else ""
        raise OptionError(f"The archive {job.target} has nothing{of} to verify.")
    now = _topics_now(spark, job, {place.topic for place in spans})
    tell(Progress(0, 0.0, 0, f"of {len(spans)} partitions"))
    judged = _judged(spans, now)
    archived = facts.named(spark, archived, adopting(spans))
    parted = facts.parted(spark, archived, facts.ranges_table(spark, judged)).persist()
    try:
        report = _report(spark, job, judged, parted, has_value)
        return report if job.topics else _with_removed(report, added)
    finally:
        parted.unpersist()
        tell(Progress(len(spans), 0.0, 0, f"of {len(spans)} partitions"))


def _state(table: Table) -> "tuple[Position, int, tuple[DataFrame, bool]]":
    """Its position, the number of rows that it should have, and its rows. Of one moment: an archive run may
    add records meanwhile, and a position that is ahead of the rows would make them seem to be missing.
    """
    for _ in range(_LOOKS_MAX):
        position, totals = table.position(), table.totals()
        added = table.added()
        rows = facts.archived_rows(table)
        if (table.position(), table.totals()) == (position, totals):
            return position, totals.records + totals.undecodable if added is None else added, rows
    raise TableError(
        f"{table.target} changes too often to be verified: do so while no archive run adds to it."
    )


def _with_removed(report: VerifyReport, added: int) -> VerifyReport:
    """With rows that archive runs have added and that are gone, as far as the topics did not tell already."""
    rows = sum(one.records - one.duplicates for one in report.places)
    removed = added - rows - report.counts.get("missing", 0)
    if removed <= 0:
        return report
    place = next((one for one in report.places if one.missing_offsets), report.places[0])
    detail = f"{removed} of the archived records are gone from the archive, which cannot tell their offsets"
    found = Finding("removed", place.topic, place.topic_id, place.partition, place.start_offset, detail)
    return replace(
        report,
        findings=[*report.findings, found][:FINDINGS_SHOWN],
        counts={**report.counts, "removed": removed},
    )


def _judged(spans: Mapping[Place, Span], now: Mapping[tuple[str, int], TopicNow]) -> list[Judged]:
    """Every span, and every partition of the topics that has none yet."""
    judged = []
    for place, span in sorted(spans.items()):
        found = now.get((place.topic, place.partition))
        present = found if is_same_topic(place, found) else None
        judged.append(Judged(place, span, common_span(place, span, found), present))
    known = {(one.place.topic, one.place.partition) for one in judged if one.now is not None}
    for (topic, partition), found in sorted(now.items()):
        if (topic, partition) not in known:
            nothing = Span(found.start, found.start)
            judged.append(Judged(Place(topic, found.topic_id, partition), nothing, nothing, found))
    return judged


def _report(
    spark: "SparkSession", job: Verify, judged: list[Judged], parted: "DataFrame", has_value: bool
) -> VerifyReport:
    parts = facts.summary(spark, parted)
    ranges = {one.place: one.common for one in judged if one.now is not None}
    found = facts.topic_rows(spark, job.source([]), ranges, has_value)
    of_topics = {} if found is None else facts.topic_summary(spark, found)
    judged = [_with_parts(one, parts, of_topics) for one in judged]
    judged += _unnamed({one.place for one in judged}, parts)
    findings = [one for place in judged for one in findings_of(place)]
    counts = _counted(findings)
    compacted_away = 0
    suspects = [one for one in judged if one.must_be_searched]
    if suspects and found is not None:
        more, kinds, compacted_away = _searched(spark, suspects, parted, found)
        findings += more
        for kind, count in kinds.items():
            counts[kind] = counts.get(kind, 0) + count
    findings.sort(key=lambda one: (one.topic, one.partition, one.offset, one.kind))
    states = [state_of(one) for one in judged]
    return VerifyReport(states, findings[:FINDINGS_SHOWN], counts, has_value, compacted_away)


def _with_parts(
    one: Judged, parts: Mapping[tuple[Place, str], Part], of_topics: Mapping[tuple[str, int], Part]
) -> Judged:
    own = {name: part for (place, name), part in parts.items() if place == one.place}
    theirs = of_topics.get((one.place.topic, one.place.partition), Part()) if one.now is not None else Part()
    return replace(one, parts=own, topic_part=theirs)


def _unnamed(known: set[Place], parts: Mapping[tuple[Place, str], Part]) -> list[Judged]:
    """Rows of places that the position does not name: strays, unless they are from before ids were
    recorded.
    """
    found = []
    for (place, _), part in sorted(parts.items()):
        if place in known:
            continue
        span = Span(part.first, part.last + 1) if not place.topic_id else Span(part.first, part.first)
        name = PAST if not place.topic_id else STRAY
        found.append(Judged(place, span, Span(span.end, span.end), None, {name: part}))
    return found


def _counted(findings: Iterable[Finding]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in findings:
        counts[one.kind] = counts.get(one.kind, 0) + 1
    return counts


def _searched(
    spark: "SparkSession", suspects: list[Judged], parted: "DataFrame", found: "DataFrame"
) -> tuple[list[Finding], dict[str, int], int]:
    """Single records that differ: the first findings, how many there are, and how many were compacted
    away.
    """
    differing = _differing(spark, suspects, parted, found).persist()
    by_place = {(one.place.topic, one.place.partition): one for one in suspects}
    try:
        counts, compacted_away = _counted_differences(differing, by_place)
        return _first_differences(differing, by_place), counts, compacted_away
    finally:
        differing.unpersist()


def _differing(
    spark: "SparkSession", suspects: list[Judged], parted: "DataFrame", found: "DataFrame"
) -> "DataFrame":
    from pyspark.sql import functions

    places = [one.place for one in suspects]
    chosen = functions.broadcast(
        spark.createDataFrame(places, "topic string, topic_id string, partition int")
    )
    kept = parted.where(functions.col("part") == KEPT)
    archived = kept.join(chosen, ["topic", "topic_id", "partition"], "semi")
    return facts.differences(spark, archived, found.join(chosen, ["topic", "partition"], "semi"))


def _counted_differences(
    differing: "DataFrame", by_place: Mapping[tuple[str, int], Judged]
) -> tuple[dict[str, int], int]:
    counts: dict[str, int] = {}
    compacted_away = 0
    for row in differing.groupBy("topic", "partition", "kind").count().collect():
        if _is_allowed(by_place[row["topic"], row["partition"]], row["kind"]):
            compacted_away += row["count"]
        else:
            counts[row["kind"]] = counts.get(row["kind"], 0) + row["count"]
    return counts, compacted_away


def _first_differences(differing: "DataFrame", by_place: Mapping[tuple[str, int], Judged]) -> list[Finding]:
    shown = differing
    for (topic, partition), one in by_place.items():
        if _is_allowed(one, "unknown"):
            allowed = (shown.topic == topic) & (shown.partition == partition) & (shown.kind == "unknown")
            shown = shown.where(~allowed)
    first = shown.orderBy("topic", "partition", "offset").limit(FINDINGS_SHOWN).collect()
    return [
        Finding(kind, *by_place[topic, partition].place, offset, _DETAILS[kind])
        for topic, partition, offset, kind in first
    ]


def _is_allowed(one: Judged, kind: str) -> bool:
    return kind == "unknown" and one.now is not None and one.now.is_compacted


def _topics_now(spark: "SparkSession", job: Verify, names: set[str]) -> dict[tuple[str, int], TopicNow]:
    """The partitions of the topics that still exist."""
    topics = job.source(names)
    view = look(spark, Asked(topics.stream_options(), (), counts_open=True))
    there = sorted({seen.place.topic for seen in view.partitions})
    policies = _policies(spark, job, there) if there else {}
    return {
        (seen.place.topic, seen.place.partition): TopicNow(
            seen.place.topic_id,
            seen.earliest,
            seen.latest,
            "compact" in policies[seen.place.topic],
            seen.held_back,
        )
        for seen in view.partitions
    }


def _policies(spark: "SparkSession", job: Verify, topics: list[str]) -> dict[str, str]:
    """Asked by the driver, or, with Spark Connect, by a worker of the server."""
    client = client_settings(Options({"kafka.bootstrap.servers": job.bootstrap, **job.options}))

    def ask() -> str:
        with Cluster(client) as cluster:
            return json.dumps(topic_setting(cluster, topics, "cleanup.policy"))

    def ask_in_worker(_: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"policies": [ask()]})

    if hasattr(spark, "_jsparkSession"):
        found: dict[str, str] = json.loads(ask())
        return found
    rows = spark.range(0, 1, 1, 1).mapInArrow(ask_in_worker, "policies string").collect()
    return dict(json.loads(rows[0]["policies"]))


__all__ = ["Finding", "PlaceState", "Verify", "VerifyReport", "verify"]
