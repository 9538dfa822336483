"""Filters that Spark pushes down, as fewer topics, partitions and offsets to read.

A filter on topic, partition or offset is applied exactly, so Spark need not check again. One on the timestamp
only moves the start: all records from the first one that is not older are read, and Spark filters them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)


@dataclass
class Pushed:
    """What the accepted filters leave to be read; picklable."""

    topics: frozenset[str] | None = None  # None: any
    partitions: frozenset[int] | None = None
    least_partition: int | None = None
    most_partition: int | None = None  # inclusive
    start_offset: int | None = None
    end_offset: int | None = None  # exclusive
    since_ms: int | None = None

    def take(self, filters: Sequence[Filter]) -> list[Filter]:
        """Accept the supported filters; returns those that Spark must still apply."""
        return [one for one in filters if not self._take(one)]

    def allows(self, topic: str, partition: int) -> bool:
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
            and (self.least_partition is None or partition >= self.least_partition)
            and (self.most_partition is None or partition <= self.most_partition)
        )

    def _take(self, one: Filter) -> bool:
        column = getattr(one, "attribute", ())
        value: Any = getattr(one, "value", None)
        if column == ("timestamp",):
            self._since(one, value)
            return False
        if column == ("topic",) and isinstance(one, EqualTo | In):
            wanted = frozenset(value) if isinstance(one, In) else frozenset([value])
            if not all(isinstance(name, str) for name in wanted):
                return False
            self.topics = wanted if self.topics is None else self.topics & wanted
            return True
        if column == ("partition",):
            return self._take_partition(one, value)
        return column == ("offset",) and self._take_offset(one, value)

    def _take_partition(self, one: Filter, value: Any) -> bool:
        if isinstance(one, In) and all(type(number) is int for number in value):
            wanted = frozenset(value)
            self.partitions = wanted if self.partitions is None else self.partitions & wanted
            return True
        span = _span(one, value)
        if span is None:
            return False
        self.least_partition = _larger(self.least_partition, span[0])
        self.most_partition = _smaller(self.most_partition, None if span[1] is None else span[1] - 1)
        return True

    def _take_offset(self, one: Filter, value: Any) -> bool:
        span = _span(one, value)
        if span is None:
            return False
        self.start_offset = _larger(self.start_offset, span[0])
        self.end_offset = _smaller(self.end_offset, span[1])
        return True

    def _since(self, one: Filter, value: Any) -> None:
        if not isinstance(one, EqualTo | GreaterThan | GreaterThanOrEqual) or not isinstance(value, datetime):
            return
        moment = value if value.tzinfo is not None else value.astimezone(UTC)
        # Records have milliseconds: rounding down keeps those of the same millisecond.
        self.since_ms = _larger(self.since_ms, max(int(moment.timestamp() * 1000), 0))


def _span(one: Filter, value: Any) -> tuple[int | None, int | None] | None:
    """(first, after the last) of the whole numbers that match a comparison; None: not a range."""
    if type(value) is not int:
        return None
    if isinstance(one, EqualTo):
        return value, value + 1
    if isinstance(one, GreaterThan):
        return value + 1, None
    if isinstance(one, GreaterThanOrEqual):
        return value, None
    if isinstance(one, LessThan):
        return None, value
    return (None, value + 1) if isinstance(one, LessThanOrEqual) else None


def _larger(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else max(one, other)


def _smaller(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)
