"""What of an archive can be compared with its topics, and what a difference means. No Spark and no cluster.

An archive holds *spans*: for each partition of each incarnation of a topic (its id), the offsets that were
read. A topic holds the offsets from its log start to its last stable offset. Where both have offsets, they
must have the same records. Of what the topic has deleted, the archive is the only copy: there it can only be
checked that no record is twice. Offsets that are missing there are counted, and are no finding: control
records and aborted records have offsets, too.

========== ============================================================================================
kind       what was found
========== ============================================================================================
missing    the topic has a record that the archive should have
differs    the archive has another record at this offset than the topic
unknown    the archive has a record that the topic never had, or has lost (allowed if it is compacted)
duplicate  a record is in the archive more than once
stray      a record is in the archive, and the archive's position does not cover it
lost       the topic deleted records before they were archived
removed    the table's metadata counts a record that the table does not have any more
========== ============================================================================================
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.spark.pipelines.tables import Place, Span

# Parts of an archive's rows, by their offsets.
KEPT = "kept"  # the topic should have them, too
PAST = "past"  # the topic has deleted them, or was deleted itself
BEYOND = "beyond"  # behind the end of the topic
STRAY = "stray"  # outside of the span


class TopicNow(NamedTuple):
    """One partition as the cluster has it now."""

    topic_id: str  # empty: the cluster tells none
    start: int
    end: int  # exclusive: the last stable offset
    is_compacted: bool = False
    held_back: int = 0  # offsets from the end on: open transactions, and what was written after these


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one place."""

    records: int = 0
    checksum: int = 0
    duplicates: int = 0
    gaps: int = 0  # between two rows
    missing: int = 0  # offsets in the gaps
    first: int = -1
    last: int = -1


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    topic: str
    topic_id: str
    partition: int
    offset: int
    detail: str


@dataclass(frozen=True, slots=True)
class PlaceState:
    """One partition of one topic id, and what was compared."""

    topic: str
    topic_id: str
    partition: int
    start_offset: int  # of the span
    end_offset: int  # exclusive
    records: int  # in the archive
    compared: int  # of them, with the topic's records
    uncompared: int  # of them, because the topic no longer has these offsets
    missing_offsets: int  # without a record, where the topic cannot tell why
    behind: int  # offsets of the topic that are not archived yet
    duplicates: int  # rows too many
    exists: bool = True  # False: this topic id is gone
    note: str = ""
    held_back: int = 0  # offsets of the topic that no run can archive before a transaction ends


@dataclass(frozen=True, slots=True)
class Judged:
    """A place before single records were looked at."""

    place: Place
    span: Span
    common: Span  # the offsets that archive and topic must agree about
    now: TopicNow | None  # None: the topic, or this incarnation of it, is gone
    parts: Mapping[str, Part] = field(default_factory=dict)
    topic_part: Part = field(default_factory=Part)

    @property
    def must_be_searched(self) -> bool:
        """Whether the records must be compared one by one."""
        if self.common.size <= 0 or self.now is None:
            return False
        kept = self.parts.get(KEPT, Part())
        same = (kept.records, kept.checksum) == (self.topic_part.records, self.topic_part.checksum)
        return not same


def adopting(spans: Mapping[Place, Span]) -> list[Place]:
    """The places that rows without a topic id belong to: archives did not record ids at first, and the id
    that was there when they began to continued the rows. If there is more than one id of a partition, the
    one that did so is gone, and the rows count by themselves.
    """
    by_partition: dict[tuple[str, int], list[Place]] = {}
    for place in spans:
        by_partition.setdefault((place.topic, place.partition), []).append(place)
    return [places[0] for places in by_partition.values() if len(places) == 1]


def is_same_topic(place: Place, now: TopicNow | None) -> bool:
    """Ids that are unknown on either side fit."""
    return now is not None and (not place.topic_id or not now.topic_id or place.topic_id == now.topic_id)


def common_span(place: Place, span: Span, now: TopicNow | None) -> Span:
    """The offsets that both have; empty at the end of the span if there are none."""
    if now is None or not is_same_topic(place, now):
        return Span(span.end, span.end)
    start = min(max(span.start, now.start), span.end)
    return Span(start, max(start, min(span.end, now.end)))


def part_of(offset: int, span: Span, common: Span) -> str:
    """The same rule as in the queries of :mod:`.facts`."""
    if not span.start <= offset < span.end:
        return STRAY
    if offset < common.start:
        return PAST
    return KEPT if offset < common.end else BEYOND


def state_of(judged: Judged) -> PlaceState:
    place, span, now = judged.place, judged.span, judged.now
    past = judged.parts.get(PAST, Part())
    behind = max(now.end - max(span.end, now.start), 0) if now is not None else 0
    return PlaceState(
        *place,
        span.start,
        span.end,
        sum(part.records for part in judged.parts.values()),
        judged.parts.get(KEPT, Part()).records,
        past.records,
        _missing_offsets(judged, past),
        behind,
        sum(part.duplicates for part in judged.parts.values()),
        now is not None,
        _note(judged),
        now.held_back if now is not None else 0,
    )


def _missing_offsets(judged: Judged, past: Part) -> int:
    """In the part that the topic has deleted, the edges included."""
    size = judged.common.start - judged.span.start
    return max(size - (past.records - past.duplicates), 0)


def _note(judged: Judged) -> str:
    if judged.now is None:
        return "this topic id is gone: checked for duplicates only"
    if judged.common.start > judged.span.start:
        return f"below {judged.common.start} the topic is deleted: checked for duplicates only"
    return ""


def findings_of(judged: Judged) -> Iterator[Finding]:
    """Those that need no comparison of single records."""
    place, span, now = judged.place, judged.span, judged.now
    for name, part in judged.parts.items():
        if part.duplicates:
            yield Finding(
                "duplicate", *place, part.first, f"{_records(part.duplicates)} too many in offsets "
                f"{part.first} to {part.last}",
            )  # fmt: skip
        if name == STRAY:
            yield Finding(
                "stray", *place, part.first, f"{_records(part.records)} at offsets {part.first} to "
                f"{part.last}, and the archive's position is {span.start} to {span.end}",
            )  # fmt: skip
        if name == BEYOND and now is not None:
            yield Finding(
                "unknown", *place, part.first, f"{_records(part.records)} from offset {part.first} on, and "
                f"the topic ends at {now.end}",
            )  # fmt: skip
    if now is not None and now.start > span.end:
        yield Finding(
            "lost", *place, span.end, f"offsets {span.end} to {now.start - 1} were deleted from the topic "
            "before they were archived",
        )  # fmt: skip


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"
