"""Ranges of offsets as tasks of a query: large ones are split on request, many small ones share a task."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace
from math import ceil

from pyspark.sql.datasource import InputPartition

from tidelog.spark.reading.settings import ReadSettings

# A task costs Spark and a Python process some 10 to 50 ms, as long as reading some 20,000 records takes.
SMALL_OFFSETS = 5_000
"""A range of at most this many offsets may share a task."""
JOINED_OFFSETS = 20_000
"""About how many offsets the ranges of one task have together, unless they are still too many tasks."""
TASKS_PER_CORE = 2
TASKS_MIN = 8
"""So many tasks are never joined by default: Spark may have more cores than the driver's machine."""


@dataclass(frozen=True)
class TopicRange(InputPartition):
    """A part of a partition; what one task reads."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int  # exclusive
    topic_id: str = ""  # of the topic that the offsets belong to; empty: unknown

    def __repr__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start_offset}, {self.end_offset})"

    @property
    def size(self) -> int:
        return max(self.end_offset - self.start_offset, 0)


@dataclass(frozen=True)
class JoinedRanges(InputPartition):
    """Parts of several partitions that one task reads, one after another."""

    ranges: tuple[TopicRange, ...]


def as_tasks(ranges: Sequence[TopicRange], settings: ReadSettings) -> list[InputPartition]:
    """The tasks of a query, without empty ranges."""
    pieces = split(ranges, settings.min_partitions, settings.max_records_per_partition)
    if settings.max_partitions is not None:
        return join(pieces, settings.max_partitions)
    if settings.min_partitions is not None:
        return list(pieces)
    most_offsets = min(settings.max_records_per_partition or JOINED_OFFSETS, JOINED_OFFSETS)
    return join_small(pieces, max((os.cpu_count() or 1) * TASKS_PER_CORE, TASKS_MIN), most_offsets)


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


def join_small(pieces: Sequence[TopicRange], tasks: int, most_offsets: int) -> list[InputPartition]:
    """If there are more than ``tasks``, small ranges share tasks of at most about ``most_offsets``."""
    small = [one for one in pieces if one.size <= min(SMALL_OFFSETS, most_offsets)]
    large: list[InputPartition] = [one for one in pieces if one.size > min(SMALL_OFFSETS, most_offsets)]
    if len(pieces) <= tasks or not small:
        return list(pieces)
    needed = ceil(sum(one.size for one in small) / most_offsets)
    return large + join(small, max(needed, tasks - len(large), 1))


def join(pieces: Sequence[TopicRange], tasks: int) -> list[InputPartition]:
    """At most ``tasks``, of about equal size."""
    if len(pieces) <= tasks:
        return list(pieces)
    # The largest first, each to the task that has the least so far.
    heap: list[tuple[int, int, list[TopicRange]]] = [(0, number, []) for number in range(tasks)]
    heapify(heap)
    for one in sorted(pieces, key=lambda one: -one.size):
        size, number, members = heap[0]
        members.append(one)
        heapreplace(heap, (size + one.size, number, members))
    return [
        JoinedRanges(tuple(sorted(members, key=lambda one: (one.topic, one.partition, one.start_offset))))
        for _, _, members in sorted(heap)
    ]


def _cut(one: TopicRange, count: int) -> list[TopicRange]:
    count = min(count, one.size)
    edges = [one.start_offset + one.size * index // count for index in range(count + 1)]
    return [replace(one, start_offset=edges[i], end_offset=edges[i + 1]) for i in range(count)]
