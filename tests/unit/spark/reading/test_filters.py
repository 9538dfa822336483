"""Filters that Spark pushes down: which are applied exactly, which only narrow, which are left to Spark."""

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    ColumnPath,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from tidelog.spark.reading.filters import Pushed

TOPIC: ColumnPath = ("topic",)
PARTITION: ColumnPath = ("partition",)
OFFSET: ColumnPath = ("offset",)
TIMESTAMP: ColumnPath = ("timestamp",)
MOMENT = datetime(2024, 5, 1, 12, 0, 0, 1_500, UTC)


def pushed(*filters: Filter) -> Pushed:
    found = Pushed()
    assert found.take(filters) == []
    return found


def test_topics_that_all_filters_name() -> None:
    found = pushed(In(TOPIC, ("a", "b")), EqualTo(TOPIC, "b"))
    assert [found.allows(topic, 0) for topic in "abc"] == [False, True, False]


@pytest.mark.parametrize(
    ("filters", "partitions"),
    [
        ((GreaterThan(PARTITION, 1), LessThanOrEqual(PARTITION, 3)), {2, 3}),
        ((GreaterThanOrEqual(PARTITION, 1), LessThan(PARTITION, 3)), {1, 2}),
        ((EqualTo(PARTITION, 4),), {4}),
        ((In(PARTITION, (0, 2)), GreaterThan(PARTITION, 0)), {2}),
        ((In(PARTITION, ()),), set()),
    ],
)
def test_partitions(filters: tuple[Filter, ...], partitions: set[int]) -> None:
    found = pushed(*filters)
    assert {number for number in range(5) if found.allows("t", number)} == partitions


@pytest.mark.parametrize(
    ("filters", "span"),
    [
        ((GreaterThan(OFFSET, 10), GreaterThanOrEqual(OFFSET, 5), LessThan(OFFSET, 20)), (11, 20)),
        ((LessThanOrEqual(OFFSET, 20), LessThan(OFFSET, 30)), (None, 21)),
        ((EqualTo(OFFSET, 7),), (7, 8)),
    ],
)
def test_offsets(filters: tuple[Filter, ...], span: tuple[int | None, int | None]) -> None:
    found = pushed(*filters)
    assert (found.start_offset, found.end_offset) == span


def test_a_time_moves_the_start_and_is_left_to_spark() -> None:
    found, later = Pushed(), GreaterThan(TIMESTAMP, MOMENT)
    assert found.take([later]) == [later]
    assert found.since_ms == 1_714_564_800_001  # the millisecond that the moment is in


def test_an_end_in_time_moves_nothing() -> None:
    found, earlier = Pushed(), LessThan(TIMESTAMP, MOMENT)
    assert found.take([earlier]) == [earlier]
    assert found == Pushed()


@pytest.mark.parametrize(
    "filter_",
    [
        EqualTo(("value",), b"x"),
        GreaterThan(TOPIC, "a"),
        EqualTo(TOPIC, None),
        EqualTo(PARTITION, True),
        In(PARTITION, (1, "2")),
        In(OFFSET, (1, 2)),
        GreaterThan(OFFSET, 1.5),
    ],
)
def test_what_spark_must_apply_itself(filter_: Filter) -> None:
    found = Pushed()
    assert found.take([filter_]) == [filter_]
    assert found == Pushed()
