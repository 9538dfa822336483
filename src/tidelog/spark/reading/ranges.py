"""Ranges of offsets as the tasks of a query: one per partition, or more on request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition


@dataclass(frozen=True)
class TopicRange(InputPartition):
    """What one task reads."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int  # exclusive

    def __repr__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start_offset}, {self.end_offset})"

    @property
    def size(self) -> int:
        return max(self.end_offset - self.start_offset, 0)


def split(
    ranges: Sequence[TopicRange], min_partitions: int | None, max_records: int | None
) -> list[TopicRange]:
    """Without empty ranges; others split into about ``min_partitions``, none above ``max_records``."""
    parts = [one for one in ranges if one.size]
    if max_records is not None:
        parts = [piece for one in parts for piece in _cut(one, -(-one.size // max_records))]
    if min_partitions is None or len(parts) >= min_partitions:
        return parts
    total = sum(one.size for one in parts)
    pieces: list[TopicRange] = []
    for one in parts:
        # By its share of all offsets, so that tasks are about equal; each keeps at least one.
        share = one.size * min_partitions / total
        pieces += _cut(one, max(1, round(share)))
    return pieces


def _cut(one: TopicRange, count: int) -> list[TopicRange]:
    count = min(count, one.size)
    edges = [one.start_offset + one.size * index // count for index in range(count + 1)]
    return [replace(one, start_offset=edges[i], end_offset=edges[i + 1]) for i in range(count)]
