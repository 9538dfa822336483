"""What only one table format has: rolled back and expired snapshots of Iceberg, its partitions, Delta's log;
and the ages and days that compaction and expiry calculate with.
"""

import datetime
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

from deltalake import DeltaTable as Delta

from tidelog.spark import OptionError
from tidelog.spark.pipelines.tables import Place, Position, Rows, Span, Step, TableError
from tidelog.spark.pipelines.tables.iceberg import IcebergCommits, unit_of
from tidelog.spark.pipelines.tables.iceberg_upkeep import last_day
from tidelog.spark.pipelines.upkeep import parse_age_ms
from unit.spark.pipelines.tables.arrow_tables import (
    PLACES,
    Open,
    add,
    at,
    offsets,
    opener,
    records,
    undecodable,
)


@pytest.fixture
def iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    return opener("iceberg", tmp_path, monkeypatch)


@pytest.fixture
def delta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    return opener("delta", tmp_path, monkeypatch)


def loaded(opened: Open) -> Any:
    one = opened()._records
    assert isinstance(one, IcebergCommits)
    found = one.load()
    assert found is not None
    return found


def test_a_table_that_is_rolled_back_has_the_position_of_its_records(iceberg: Open) -> None:
    add(iceberg(), 0, 4)
    first = loaded(iceberg).current_snapshot().snapshot_id
    add(iceberg(), 4, 8)
    loaded(iceberg).manage_snapshots().rollback_to_snapshot(first).commit()
    assert iceberg().position() == at(4) and offsets(iceberg()) == Counter(range(4))
    add(iceberg(), 4, 6)
    assert iceberg().position() == at(6) and offsets(iceberg()) == Counter(range(6))


def test_a_long_position_is_in_the_properties_only(iceberg: Open) -> None:
    many = Position({Place("many", "id", number): Span(0, 0) for number in range(300)})
    add(iceberg(), 0, 4)
    first = loaded(iceberg).current_snapshot().snapshot_id
    longer = Position({**at(4).spans, **many.spans})
    longest = Position({**at(9).spans, **many.spans})
    iceberg().append(Rows(records()), Step(0, at(4), longer))
    iceberg().append(Rows(records(4)), Step(0, longer, longest))
    assert iceberg().position() == longest
    summary = loaded(iceberg).current_snapshot().summary.additional_properties
    assert "tidelog.position" not in summary and "tidelog.attempt" in summary
    middle = loaded(iceberg).metadata.snapshots[1].snapshot_id
    loaded(iceberg).manage_snapshots().rollback_to_snapshot(middle).commit()
    with pytest.raises(TableError, match="rolled back to a snapshot that does not tell its position"):
        iceberg().position()
    loaded(iceberg).manage_snapshots().rollback_to_snapshot(first).commit()
    assert iceberg().position() == at(4)


def test_the_position_outlives_the_snapshots_that_set_it(iceberg: Open) -> None:
    """Another program compacted the table and expired everything before."""
    add(iceberg(), 0, 2)
    add(iceberg(), 2, 4)
    iceberg().compact(target_bytes=1 << 20, say=lambda text: None)
    iceberg().expire(older_than_ms=0, say=lambda text: None)
    assert len(loaded(iceberg).metadata.snapshots) == 1
    assert "tidelog.attempt" not in loaded(iceberg).current_snapshot().summary.additional_properties
    assert iceberg().position() == at(4)
    add(iceberg(), 4, 5)
    assert offsets(iceberg()) == Counter(range(5))


def test_partitions_of_iceberg_can_change(iceberg: Open) -> None:
    add(iceberg(), 0, 2)
    add(iceberg(), 2, 4, records(2, 3, day=1))
    assert unit_of(loaded(iceberg).metadata) == "day"
    add(iceberg(**{"partition-by": "month"}), 4, 6, records(4, 5, day=2))
    add(iceberg(), 6, 8, records(6, 7, day=3))  # the unit stays
    assert unit_of(loaded(iceberg).metadata) == "month"
    specs = Counter(task.file.spec_id for task in loaded(iceberg).scan().plan_files())
    assert sorted(specs.values()) == [2, 2]
    day = loaded(iceberg).scan("timestamp >= '2026-05-20T00:00:00+00:00'").to_arrow()
    assert sorted(day["offset"].to_pylist()) == [6, 7]
    done = iceberg().compact(target_bytes=1 << 20, say=lambda text: None)
    assert (done.removed_files, done.added_files) == (4, 2)  # files of days become one of the month
    assert {task.file.spec_id for task in loaded(iceberg).scan().plan_files()} == {
        loaded(iceberg).metadata.default_spec_id
    }
    assert offsets(iceberg()) == Counter(range(8)) and iceberg().position() == at(8)


@pytest.mark.slow
def test_the_position_outlives_clean_ups_of_deltas_log(delta: Open) -> None:
    add(delta(), 0, 3, records(0, 1), undecodable(2))
    path = delta()._records.path
    assert sorted(json.loads(Delta(path).metadata().configuration["tidelog.topics"])) == [
        [PLACES[0].topic, PLACES[0].topic_id, 2]
    ]
    for _ in range(3):
        table = Delta(path)
        table.create_checkpoint()
        for commit in Path(path, "_delta_log").glob("*.json"):
            if int(commit.stem) < table.version():
                commit.unlink()  # as when they are older than the log's retention
        assert delta().position() == at(3)
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    add(delta(), 3, 5)
    assert delta().position() == at(5) and offsets(delta()) == Counter([0, 1, 3, 4])


@pytest.mark.slow
def test_deltas_log_is_searched_for_a_position_once_for_each_version(
    delta: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic with many partitions it would take longer than the records."""
    partitions = 30
    many = {Place("many", "id", number): Span(0, 7) for number in range(partitions)}
    first = Position({**at(3).spans, **many})
    table = delta()
    table.append(Rows(records(0, 1), undecodable(2)), Step(0, Position(), first))
    searched: list[str] = []
    inner = Delta.transaction_version

    def search(table: Delta, name: str) -> int | None:
        searched.append(name)
        return inner(table, name)

    monkeypatch.setattr(Delta, "transaction_version", search)
    second = Position({**first.spans, PLACES[0]: Span(0, 6)})
    table.append(Rows(records(3, 4), undecodable(5)), Step(1, first, second))
    assert table.position() == second
    once = 2 * partitions + 6  # start and end of each partition, the attempt, the number of files
    assert len(searched) <= 3 * once, "more than once for each version of the two tables"
    other = delta()
    third = Position({**second.spans, PLACES[0]: Span(0, 7)})
    other.append(Rows(records(6)), Step(2, second, third))
    assert table.position() == third


def test_ages_and_last_days() -> None:
    assert [parse_age_ms(text) for text in ("0 seconds", "1 minute", "36 hours", "7 Days", "2weeks")] == [
        0, 60_000, 129_600_000, 604_800_000, 1_209_600_000
    ]  # fmt: skip
    for wrong in ("", "7", "days", "-1 days", "1 year"):
        with pytest.raises(OptionError, match="is not a number and one of the units"):
            parse_age_ms(wrong)
    day = datetime.date(2026, 5, 17)
    number = (day - datetime.date(1970, 1, 1)).days
    assert last_day("day", number) == day and last_day("hour", 24 * number + 23) == day
    assert last_day("month", 12 * 56 + 4) == datetime.date(2026, 5, 31)
    assert last_day("month", 12 * 56 + 11) == datetime.date(2026, 12, 31)
    assert last_day("year", 56) == datetime.date(2026, 12, 31)
    # Of producers that count in microseconds.
    for unit in ("hour", "day", "month", "year"):
        assert last_day(unit, 10**9) == datetime.date.max and last_day(unit, -(10**9)) == datetime.date.min


def test_a_copy_of_an_iceberg_archive_does_not_touch_the_original(
    iceberg: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(iceberg(), 0, 4)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "archive", copy / "archive")
    copied = opener("iceberg", copy, monkeypatch)
    for use in (lambda: add(copied(), 4, 6), lambda: copied().expire(older_than_ms=0, say=print)):
        with pytest.raises(TableError, match=f"was moved or copied from {tmp_path}/archive/records"):
            use()
    # Through a link it is the same one.
    link = tmp_path / "link"
    link.mkdir()
    (link / "archive").symlink_to(tmp_path / "archive")
    linked = opener("iceberg", link, monkeypatch)
    add(linked(), 4, 6)
    assert offsets(iceberg()) == Counter(range(6))


def test_an_iceberg_archive_is_not_put_where_its_uris_would_not_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a#b", "a?b"):
        with pytest.raises(TableError, match="choose another directory"):
            opener("iceberg", tmp_path / name, monkeypatch)()
    place = tmp_path / "a b%20ü"
    add(opener("iceberg", place, monkeypatch)(), 0, 2)
    assert offsets(opener("iceberg", place, monkeypatch)()) == Counter(range(2))


@pytest.mark.parametrize(("column", "to"), [("value", "payload"), ("decoded.id", "number")])
def test_columns_that_another_program_renamed_are_not_added_again(
    iceberg: Open, column: str, to: str
) -> None:
    add(iceberg(), 0, 3)
    one = iceberg()._records
    assert isinstance(one, IcebergCommits)

    def rename(before: str, after: str) -> None:
        table = one.load()
        assert table is not None
        with table.update_schema() as columns:
            columns.rename_column(before, after)

    rename(column, to)
    with pytest.raises(TableError, match=rf"has the column {column} under the name (decoded\.)?{to}, which"):
        add(iceberg(), 3, 5)
    assert iceberg().position() == at(3)
    rename(f"{column.rpartition('.')[0]}.{to}".lstrip("."), column.rpartition(".")[2])
    add(iceberg(), 3, 5)
    assert offsets(iceberg()) == Counter(range(5))
