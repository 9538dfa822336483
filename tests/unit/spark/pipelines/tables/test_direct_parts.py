"""Files that a task writes itself: what belongs where, how large they are, and what a failure leaves."""

import datetime
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.tables import direct_parts
from tidelog.spark.pipelines.tables.direct_parts import (
    HIDDEN,
    Layout,
    Part,
    PartFiles,
    Scattered,
    moved_up,
    write_task,
)
from tidelog.spark.reading.ranges import JoinedRanges, TopicRange
from tidelog.spark.reading.settings import TaskSettings

DAY_US = 86_400_000_000
MAY_17 = 20_590 * DAY_US
HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
FETCHED = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
PLAIN = pa.schema([*FETCHED, pa.field("topicId", pa.string())])
ICEBERG = pa.schema([*PLAIN, pa.field("topic", pa.string()), pa.field("date", pa.date32())])


def batch(first: int, times_us: list[int], size: int = 10) -> pa.RecordBatch:
    count = len(times_us)
    offsets = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {
            "key": [None if one % 2 else str(one).encode() for one in offsets],
            "value": [None if one % 5 == 4 else b"%08d" % one * (size // 8 + 1) for one in offsets],
            "partition": [1] * count,
            "offset": list(offsets),
            "timestamp": times_us,
            "timestampType": [0] * count,
            "headers": [[{"key": "h", "value": None}] if one % 3 == 0 else None for one in offsets],
        },
        schema=FETCHED,
    )


def files(tmp_path: Path, **layout: Any) -> PartFiles:
    return PartFiles(tmp_path, f"{HIDDEN}1", 3, Layout(**{"schema": PLAIN} | layout))


def offsets(path: Path) -> list[int]:
    found: list[int] = pq.read_table(path, partitioning=None).column("offset").to_pylist()
    return found


def test_records_are_in_the_directory_of_their_day_with_all_that_was_fetched(tmp_path: Path) -> None:
    parts = files(tmp_path)
    first = batch(0, [MAY_17, MAY_17 + DAY_US - 1, MAY_17 - 1, MAY_17 + DAY_US])
    parts.add("orders", "an-id", first)
    parts.add("orders", "an-id", batch(4, [MAY_17] * 3))
    found = {one.path.split("/", 1)[1].rpartition("/")[0]: one for one in parts.close()}
    assert sorted(found) == [f"topic=orders/date=2026-05-{day}" for day in (16, 17, 18)]
    assert [found[f"topic=orders/date=2026-05-{day}"].rows for day in (16, 17, 18)] == [1, 5, 1]
    middle = tmp_path / found["topic=orders/date=2026-05-17"].path
    assert middle.stat().st_size == found["topic=orders/date=2026-05-17"].bytes
    assert offsets(middle) == [0, 1, 4, 5, 6]
    read = pq.read_table(middle, partitioning=None)
    assert read.schema.names == PLAIN.names and set(read.column("topicId").to_pylist()) == {"an-id"}
    group = pq.read_metadata(middle).row_group(0)
    # PyIceberg warns of columns without.
    assert all(group.column(number).is_stats_set for number in range(group.num_columns))
    expected = pa.Table.from_batches([first.take(pa.array([0, 1])), batch(4, [MAY_17] * 3)])
    assert read.drop_columns(["topicId"]).to_pylist() == expected.to_pylist()


def test_times_at_their_limits_have_a_date_of_the_years_1_to_9999(tmp_path: Path) -> None:
    parts = files(tmp_path, schema=ICEBERG)
    times = [-(2**63), -62_135_596_800_000_001, -1, 2**63 - 1, 253_402_300_800_000_000]
    parts.add("orders", None, batch(0, times))
    found = parts.close()
    assert sorted({one.path.rpartition("date=")[2][:10] for one in found}) == [
        "0001-01-01",
        "1969-12-31",
        "9999-12-31",
    ]
    columns = ["topic", "topicId", "date"]
    rows = [
        row
        for one in found
        for row in pq.read_table(tmp_path / one.path, columns=columns, partitioning=None).to_pylist()
    ]
    assert {row["date"] for row in rows} == {
        datetime.date(1, 1, 1),
        datetime.date(1969, 12, 31),
        datetime.date(9999, 12, 31),
    }
    assert {row["topicId"] for row in rows} == {None} and {row["topic"] for row in rows} == {"orders"}


@pytest.mark.parametrize(
    ("unit", "expected"), [("hour", [-1, 0, 24]), ("day", [-1, 0, 1]), ("month", [-1, 0]), ("year", [-1, 0])]
)
def test_each_file_belongs_to_one_unit_of_time(tmp_path: Path, unit: str, expected: list[int]) -> None:
    parts = files(tmp_path, schema=ICEBERG, by=("by", "at"), unit=unit)
    parts.add("orders", "an-id", batch(0, [-1, 0, DAY_US, 1]))
    found = parts.close()
    assert sorted(int(one.path.split("at=")[1].partition("/")[0]) for one in found) == expected
    assert sum(one.rows for one in found) == 4


def test_a_full_file_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_parts, "ROW_GROUP_BYTES", 10_000)
    parts = files(tmp_path, file_bytes=20_000, codec="none")
    for number in range(40):
        parts.add("orders", "an-id", batch(number * 10, [MAY_17] * 10, size=200))
    found = parts.close()
    assert len(found) >= 3 and max(one.bytes for one in found) < 45_000
    assert len({one.path for one in found}) == len(found)
    assert sorted(offset for one in found for offset in offsets(tmp_path / one.path)) == list(range(400))


def test_files_of_days_one_after_another_are_closed_and_days_in_no_order_are_given_up(
    tmp_path: Path,
) -> None:
    parts = files(tmp_path)
    days = direct_parts.OPEN_FILES_MAX * 3
    for day in range(days):
        parts.add("orders", "an-id", batch(day * 2, [MAY_17 + day * DAY_US] * 2))
    assert len(parts._open) == direct_parts.OPEN_FILES_MAX
    found = parts.close()
    assert len(found) == days and sum(one.rows for one in found) == days * 2

    again = files(tmp_path)
    with pytest.raises(Scattered):
        for number in range(days * 10):
            again.add("orders", "an-id", batch(number, [MAY_17 + number * 7 % days * DAY_US]))
    again.abandon()
    assert not (tmp_path / f"{HIDDEN}1").exists()


def test_what_waits_for_all_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_parts, "PENDING_BYTES_MAX", 20_000)
    parts = files(tmp_path)
    for number in range(100):
        parts.add("orders", "an-id", batch(number * 10, [MAY_17 + number % 8 * DAY_US] * 10, size=200))
        assert sum(one.pending_bytes for one in parts._open.values()) <= 20_000
    assert sum(one.rows for one in parts.close()) == 1000


def test_only_the_files_of_tasks_that_count_are_left(tmp_path: Path) -> None:
    made = []
    for attempt in range(2):
        parts = PartFiles(tmp_path, f"{HIDDEN}{attempt}", 0, Layout(PLAIN))
        parts.add("orders", "an-id", batch(0, [MAY_17] * 4))
        made.append(parts.close())
    (moved,) = moved_up(tmp_path, made[1])
    assert moved.path == "topic=orders/date=2026-05-17/part-00000-direct.c000.snappy.parquet"
    assert [one.relative_to(tmp_path).as_posix() for one in tmp_path.rglob("*.parquet")] == [moved.path]
    assert [one.name for one in tmp_path.iterdir()] == ["topic=orders"]
    with pytest.raises(FileNotFoundError):
        moved_up(tmp_path, [Part(f"{HIDDEN}9/topic=orders/part.parquet", 1, 1)])


def test_a_task_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = TopicRange("a", 0, 0, 3), TopicRange("b", 0, 0, 3)

    def read(ranges: Any, schema: pa.Schema, settings: Any) -> Any:
        assert ranges == (one, other)
        yield one, batch(0, [MAY_17] * 3)
        yield other, batch(0, [MAY_17] * 3)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(direct_parts, "read_each", read)
    with pytest.raises(OSError, match="No space left"):
        task, unused = JoinedRanges((one, other)), cast(TaskSettings, None)
        write_task(task, 0, unused, {}, str(tmp_path), Layout(PLAIN), FETCHED)
    assert not list(tmp_path.iterdir())


def test_a_task_that_comes_too_late_does_not_make_the_directory_again(tmp_path: Path) -> None:
    parts = PartFiles(tmp_path / "step", f"{HIDDEN}1", 0, Layout(PLAIN))
    with pytest.raises(OptionError, match="need the same disk"):
        parts.add("orders", "an-id", batch(0, [MAY_17] * 4))
    assert not (tmp_path / "step").exists()
