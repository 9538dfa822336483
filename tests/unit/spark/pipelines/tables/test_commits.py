"""Archives in Iceberg and Delta without Spark: real tables, whose files are written by Arrow.

Each test runs for a directory of Iceberg tables, a SQL catalog and Delta.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

from tidelog.spark.pipelines.tables import (
    Place,
    Position,
    PositionMoved,
    Rows,
    Span,
    Step,
    TableError,
    iceberg,
)
from tidelog.spark.pipelines.tables.delta import DeltaCommits
from tidelog.spark.pipelines.tables.iceberg import IcebergCommits
from tidelog.spark.pipelines.tables.staging import new_attempt
from unit.spark.pipelines.tables.arrow_tables import (
    PLACES,
    Open,
    add,
    at,
    decoded,
    offsets,
    opener,
    records,
    undecodable,
)
from unit.spark.pipelines.tables.rest_catalog import rest_catalog

pytestmark = pytest.mark.slow  # Each test writes real tables in three formats.

OLD_S = 7200.0


@pytest.fixture(params=["iceberg", "iceberg-sql", "iceberg-rest", "delta"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    if request.param != "iceberg-rest":
        yield opener(request.param, tmp_path, monkeypatch)
        return
    with rest_catalog(str(tmp_path)) as served:
        yield opener(request.param, tmp_path, monkeypatch, served.url)


def test_the_position_is_part_of_the_table(opened: Open) -> None:
    assert opened().position() == Position() and opened().totals().records == 0
    added = add(opened(), 0, 10)
    assert (added.records, added.files) == (10, 1) and added.bytes > 0
    assert opened().position() == at(10)
    # A step without rows, as behind a compacted or aborted range.
    add(opened(), 10, 15, records())
    assert opened().position() == at(15)
    add(opened(), 15, 20)
    assert offsets(opened()) == Counter([*range(10), *range(15, 20)])
    totals = opened().totals()
    assert (totals.records, totals.undecodable, totals.files) == (15, 0, 2)
    assert opened().read_undecodable() is None


def test_a_position_may_lose_a_place(opened: Open) -> None:
    """As when the records of an earlier version get the id of their topic."""
    without = Position({Place("007", "", 0): Span(3, 5), PLACES[1]: Span(9, 9)})
    nothing = Rows(cast(Any, records()))
    opened().append(nothing, Step(0, Position(), without))
    assert opened().position() == without
    opened().append(nothing, Step(0, without, at(5)))
    assert opened().position() == at(5)
    add(opened(), 5, 6)
    assert opened().position() == at(6)


def test_of_two_runs_at_the_same_time_one_adds_its_records(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(opened(), 0, 5)
    other = opened()
    slow = opened()
    inner = slow._records.commit

    def late(*args: Any, **more: Any) -> None:
        add(other, 5, 12)  # after the slow run looked at the position, and before it commits
        inner(*args, **more)

    monkeypatch.setattr(slow._records, "commit", late)
    with pytest.raises(PositionMoved):
        add(slow, 5, 8)
    assert opened().position() == at(12) and offsets(opened()) == Counter(range(12))


def test_a_commit_that_another_overtakes_is_not_added_on_top(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes between the look at the position and the commit itself, where only the format's
    own condition helps.
    """
    add(opened(), 0, 5)
    holder: Any = iceberg if isinstance(opened()._records, IcebergCommits) else DeltaCommits
    name = "read_mark" if holder is iceberg else "mark_of"
    inner = getattr(holder, name)
    overtaken: list[bool] = []

    def late(*found: Any) -> Any:
        mark = inner(*found)
        if len(overtaken) == 1:
            overtaken.append(True)
            monkeypatch.setattr(holder, name, inner)
            add(opened(), 5, 12)
        elif not overtaken:
            overtaken.append(True)  # append() itself looks first
        return mark

    monkeypatch.setattr(holder, name, late)
    with pytest.raises(PositionMoved):
        add(opened(), 5, 8)
    assert len(overtaken) == 2
    assert offsets(opened()) == Counter(range(12))


def test_a_step_that_was_killed_before_its_commit_leaves_nothing(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(opened(), 0, 5)
    table = opened()

    def killed(*args: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(table._records, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        add(table, 5, 9, broken=undecodable(6))
    assert opened().position() == at(5) and offsets(opened()) == Counter(range(5))
    add(opened(), 5, 9, records(5, 7, 8), undecodable(6))
    assert offsets(opened()) + offsets(opened(), "undecodable") == Counter(range(9))


def test_a_step_that_was_killed_between_its_two_commits_is_completed(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened()
    monkeypatch.setattr(table, "_add_apart", lambda *args: None)
    add(table, 0, 5, records(0, 2, 4), undecodable(1, 3))
    assert offsets(opened(), "undecodable") == Counter() and opened().totals().undecodable == 2
    said: list[str] = []
    opened().prepare(said.append)
    assert said == ["completing the last step of an earlier run"]
    assert offsets(opened(), "undecodable") == Counter([1, 3])
    opened().prepare(said.append)
    assert len(said) == 1

    # The next step completes it, too, and the killed run that was only slow does not add it again.
    table = opened()
    inner = table._add_apart
    late: list[Any] = []
    monkeypatch.setattr(table, "_add_apart", lambda *args: late.append(args))
    add(table, 5, 8, records(5, 6), undecodable(7))
    add(opened(), 8, 10, records(8), undecodable(9))
    inner(*late[0])
    assert offsets(opened(), "undecodable") == Counter([1, 3, 7, 9])


def test_lost_files_of_a_killed_step_are_an_error(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    table = opened()
    monkeypatch.setattr(table, "_add_apart", lambda *args: None)
    add(table, 0, 2, records(0), undecodable(1))
    monkeypatch.setattr(table._undecodable, "written", lambda attempt: [])
    with pytest.raises(TableError, match="lacks 1 of 1 files with undecodable records"):
        table.prepare(lambda text: None)


def test_new_fields_are_added_and_other_types_are_refused(opened: Open) -> None:
    add(opened(), 0, 2)
    wider = pa.struct([pa.field("id", pa.int32()), pa.field("name", pa.string())])
    add(opened(), 2, 4, records(2, 3, decoded=wider, name="x"))
    add(opened(), 4, 5)  # a run with the old schema
    found = decoded(opened())
    assert {one["id"]: one["name"] for one in found} == {0: None, 1: None, 2: "x", 3: "x", 4: None}
    other = pa.struct([pa.field("id", pa.struct([pa.field("n", pa.int32())]))])
    bad = records(5).drop_columns(["decoded"]).append_column("decoded", pa.array([{"id": {"n": 5}}], other))
    with pytest.raises(TableError, match="cannot take records of this schema"):
        add(opened(), 5, 6, bad)
    assert opened().position() == at(5)


def test_numbers_become_wider_where_the_format_allows_it(opened: Open) -> None:
    add(opened(), 0, 2)
    wide = pa.struct([pa.field("id", pa.int64())])
    if isinstance(opened()._records, DeltaCommits):
        with pytest.raises(TableError, match="cannot take records of this schema"):
            add(opened(), 2, 3, records(2, decoded=wide))
        return
    add(opened(), 2, 3, records(2, decoded=wide, id=2**40))
    add(opened(), 3, 4)
    assert sorted(one["id"] for one in decoded(opened())) == [0, 1, 3, 2**40]


def test_small_files_are_merged_and_old_ones_expire(opened: Open) -> None:
    for start in range(0, 12, 3):
        add(opened(), start, start + 3, records(start, start + 1, day=start % 2), undecodable(start + 2))
    before = opened().totals()
    assert (before.records, before.undecodable, before.files) == (8, 4, 8)
    said: list[str] = []
    done = opened().compact(target_bytes=1 << 20, say=said.append)
    after = opened().totals()
    assert (after.records, after.undecodable, after.files) == (8, 4, 3) and said
    assert (done.removed_files, done.added_files) == (8, 3)
    assert opened().position() == at(12)
    expected = Counter(range(12))
    assert offsets(opened()) + offsets(opened(), "undecodable") == expected
    assert opened().compact(target_bytes=1 << 20, say=said.append).removed_files == 0

    # As if a step were running, or had been killed.
    uncommitted = opened()._records.write(cast(Any, records(12)), new_attempt())
    assert len(uncommitted) == 1
    place = Path(opened()._records.path.removeprefix("file://"))
    file = place / uncommitted[0].path.removeprefix("file://")
    old = opened().expire(older_than_ms=0, say=said.append)
    assert old.removed_files >= 8 and old.removed_bytes > 0 and file.exists()
    os.utime(file, (time.time() - OLD_S,) * 2)
    assert opened().expire(older_than_ms=0, say=said.append).removed_files == 1 and not file.exists()
    assert opened().position() == at(12)
    assert offsets(opened()) + offsets(opened(), "undecodable") == expected
    add(opened(), 12, 14)
    assert opened().position() == at(14)
    assert offsets(opened()) + offsets(opened(), "undecodable") == Counter(range(14))


def test_a_compaction_at_the_same_time_does_not_stop_a_step(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(opened(), 0, 2)
    add(opened(), 2, 4)
    slow = opened()
    inner = slow._records.commit

    def late(*args: Any, **more: Any) -> None:
        opened().compact(target_bytes=1 << 20, say=lambda text: None)
        inner(*args, **more)

    monkeypatch.setattr(slow._records, "commit", late)
    add(slow, 4, 6)
    assert offsets(opened()) == Counter(range(6)) and opened().totals().files == 2


def test_of_two_compactions_at_the_same_time_one_counts(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, 8, 2):
        add(opened(), start, start + 2, records(start), undecodable(start + 1))
    slow: Any = opened()
    inner = slow._records.change
    others: list[Any] = []

    def late(change: Any) -> None:
        monkeypatch.setattr(slow._records, "change", inner)
        others.append(opened().compact(target_bytes=1 << 20, say=lambda text: None))
        inner(change)

    monkeypatch.setattr(slow._records, "change", late)
    done = slow.compact(target_bytes=1 << 20, say=lambda text: None)
    assert others[0].removed_files == 8 and done.removed_files == 0
    assert offsets(opened()) == Counter(range(0, 8, 2))
    assert offsets(opened(), "undecodable") == Counter(range(1, 8, 2))


def test_a_compaction_that_a_commit_overtakes_is_not_added_on_top(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the table and the commit."""
    for start in range(4):
        add(opened(), start, start + 1)
    slow = opened()
    one = cast(Any, slow._records)
    name = "_existing"
    inner = getattr(one, name)

    def stale() -> Any:
        found = inner()
        monkeypatch.setattr(one, name, inner)
        add(opened(), 4, 5)
        opened().compact(target_bytes=1 << 20, say=lambda text: None)
        return found

    monkeypatch.setattr(one, name, stale)
    one.compact(target_bytes=1 << 20, say=lambda text: None)
    assert offsets(opened()) == Counter(range(5)) and opened().position() == at(5)


def test_files_of_a_task_that_lost_against_its_copy_do_not_count(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind: Any = type(opened()._records)
    inner = kind.write_files

    def with_late_task(self: Any, rows: Any, *place: Any) -> None:
        inner(self, rows, *place)
        inner(self, rows, *place[:-1], f"{place[-1]}/_temporary/0/_temporary/attempt_1")

    monkeypatch.setattr(kind, "write_files", with_late_task)
    add(opened(), 0, 3, records(0, 1), undecodable(2))
    assert offsets(opened()) == Counter([0, 1]) and offsets(opened(), "undecodable") == Counter([2])


def test_names_that_spark_does_not_tell_apart_are_refused(opened: Open) -> None:
    add(opened(), 0, 2)
    other = pa.struct([pa.field("ID", pa.int32())])
    with pytest.raises(TableError, match="has a field id, and new records have ID"):
        add(opened(), 2, 3, records(2, decoded=other, ID=2).drop_columns([]))
    add(opened(), 2, 3)
    assert offsets(opened()) == Counter(range(3))


def test_values_are_in_all_rows_or_in_none(opened: Open) -> None:
    add(opened(), 0, 2, None, undecodable())
    with pytest.raises(TableError, match="has the original values of its records: do not drop them"):
        add(opened(), 2, 3, records(2).drop_columns(["value"]), undecodable())
    assert opened().position() == at(2)


@pytest.mark.parametrize("good", [[2], []], ids=["both tables", "undecodable only"])
def test_a_step_that_sleeps_until_its_files_are_expired_adds_none_of_them(
    opened: Open, tmp_path: Path, good: list[int]
) -> None:
    """They look like those of a killed run. The step is planned again."""
    add(opened(), 0, 2)

    def sleep() -> None:
        for file in tmp_path.rglob("*.parquet"):
            os.utime(file, (0, 0))
        opened().expire(older_than_ms=0, say=lambda text: None)

    rows = Rows(cast(Any, records(*good)), cast(Any, undecodable(3)))
    with pytest.raises(PositionMoved, match="were removed before they were added; run it again"):
        opened().append(rows, Step(0, at(2), at(4), sleep))
    assert opened().position() == at(2) and offsets(opened()) == Counter(range(2))
    add(opened(), 2, 4, records(2), undecodable(3))
    assert offsets(opened()) == Counter(range(3)) and offsets(opened(), "undecodable") == Counter([3])


def test_undecodable_records_of_a_step_that_was_killed_between_its_commits_are_read(opened: Open) -> None:
    """A restore would leave them out without a word."""
    add(opened(), 0, 2, records(0), undecodable(1))
    killed = opened()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(killed, "_add_apart", lambda files, mark: None)
        add(killed, 2, 4, records(2), undecodable(3))
    found = opened().read_undecodable()
    assert found is not None
    assert sorted(cast(Any, found)["offset"].to_pylist()) == [1, 3]
    assert (opened().totals().records, opened().totals().undecodable) == (2, 2)
    opened().prepare(lambda text: None)
    assert offsets(opened(), "undecodable") == Counter([1, 3]) and opened().totals().undecodable == 2
