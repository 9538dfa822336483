"""What may be compacted, and when it is worthwhile. Decides only; touches nothing.

From the start of a log on: what earlier passes have **cleaned**; what is **dirty**, written since; and what
no pass may touch: the active segment, segments that are not fully committed or reach into an open
transaction, and segments with a record younger than ``min.compaction.lag.ms``. Whole segments only.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from tidelog.log import layout
from tidelog.log.index_build import RELATIVE_OFFSET_MAX
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.log.settings import LogSettings


class CompactionSettings(LogSettings, Protocol):
    """What compaction needs of a topic's configuration, in addition to what the log needs."""

    @property
    def min_compaction_lag_ms(self) -> int: ...
    @property
    def delete_retention_ms(self) -> int: ...
    @property
    def min_cleanable_dirty_ratio(self) -> float: ...


class Cleanable(NamedTuple):
    """The part of a log that a pass may work on."""

    first_dirty_offset: int
    end_offset: int  # Exclusive; a segment boundary. first_dirty_offset <= end_offset.
    clean_bytes: int
    dirty_bytes: int
    overdue: bool  # max.compaction.lag.ms has expired for a dirty record.

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, settings: CompactionSettings) -> bool:
        worth_it = self.overdue or self.dirty_ratio > settings.min_cleanable_dirty_ratio
        return self.dirty_bytes > 0 and worth_it


def find_cleanable(
    log: Log, settings: CompactionSettings, *, clean_offset: int, high_watermark: int, now_ms: int
) -> Cleanable:
    """What a pass may work on, if everything before ``clean_offset`` was already compacted."""
    first_dirty = max(clean_offset, log.start_offset)
    if clean_offset > log.end_offset:
        # The log was truncated or restarted since: none of this was compacted.
        first_dirty = log.start_offset
    # The outcome of an open transaction is not known yet.
    stable_offset = log.last_stable_offset(high_watermark)
    clean_bytes = dirty_bytes = 0
    overdue = False
    end_offset = log.segments[0].base_offset
    for segment, following in pairwise(log.segments):
        segment_end = following.base_offset
        if segment_end <= first_dirty:
            clean_bytes += segment.size
        elif segment_end > stable_offset or _is_young(segment, settings, now_ms):
            break
        else:
            dirty_bytes += segment.size
            overdue = overdue or is_overdue(segment, settings, now_ms)
        end_offset = segment_end
    return Cleanable(min(first_dirty, end_offset), end_offset, clean_bytes, dirty_bytes, overdue)


def _is_young(segment: Segment, settings: CompactionSettings, now_ms: int) -> bool:
    lag_ms = settings.min_compaction_lag_ms
    return lag_ms > 0 and segment.indexes.load_max_timestamp() > now_ms - lag_ms


def is_overdue(segment: Segment, settings: CompactionSettings, now_ms: int) -> bool:
    """Whether ``max.compaction.lag.ms`` has expired for the segment's first record."""
    oldest_allowed_ms = now_ms - settings.max_compaction_lag_ms
    if oldest_allowed_ms <= 0:
        return False  # The default lag is longer than the clock has run: no need to read the file.
    first = segment.header_at(0)
    return first is not None and 0 < first.max_timestamp < oldest_allowed_ms


class Source(NamedTuple):
    """An inactive segment as a pass found it. The pass's thread may read only what cannot change."""

    segment: Segment
    base_offset: int
    end_offset: int  # Exclusive: where the next segment begins.
    size: int
    index_bytes: int

    @property
    def path(self) -> str:
        return self.segment.path + layout.LOG_SUFFIX

    def is_same(self, other: "Source | None") -> bool:
        """Whether the segment is unchanged. (Its index may be rebuilt at any time.)"""
        return other is not None and self[:4] == other[:4]


def sources_of(log: Log, end_offset: int) -> list[Source]:
    """The inactive segments that are entirely before ``end_offset``."""
    return [
        Source(segment, segment.base_offset, following.base_offset, segment.size, _index_bytes(segment))
        for segment, following in pairwise(log.segments)
        if following.base_offset <= end_offset
    ]


def _index_bytes(segment: Segment) -> int:
    return max(index.count * index.entry_size for index in (segment.indexes.offsets, segment.indexes.times))


def group_by_size(sources: Sequence[Source], bytes_max: int, index_bytes_max: int) -> Iterator[list[Source]]:
    """Runs of neighbours that fit into one segment: compaction leaves small ones, which must not pile up."""
    group: list[Source] = []
    for source in sources:
        if group and not (
            sum(member.size for member in group) + source.size <= bytes_max
            and sum(member.index_bytes for member in group) + source.index_bytes <= index_bytes_max
            and source.end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
        ):
            yield group
            group = []
        group.append(source)
    if group:
        yield group
