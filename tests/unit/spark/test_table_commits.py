"""Archives in Iceberg and Delta without Spark: real tables, whose files are written by Arrow.

Each test runs for a directory of Iceberg tables, a SQL catalog and Delta.
"""

import datetime
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

from deltalake import DeltaTable as Delta
from pyiceberg.table import StaticTable

from tidelog.spark.pipelines.tables import (
    Place,
    Position,
    PositionMoved,
    Rows,
    Span,
    Step,
    TableError,
    delta,
    iceberg,
)
from tidelog.spark.pipelines.tables.delta import DeltaCommits, open_delta
from tidelog.spark.pipelines.tables.iceberg import IcebergCommits, open_iceberg
from tidelog.spark.pipelines.tables.staging import new_attempt
from tidelog.spark.pipelines.tables.two_tables import TwoTables

TOPIC_ID = "Zm9vYmFyYmF6cXV4MTIzNA"
PLACES = [Place("007", TOPIC_ID, number) for number in range(2)]
DAY = datetime.datetime(2026, 5, 17, tzinfo=datetime.UTC)
DECODED = pa.struct([pa.field("id", pa.int32())])
OLD_S = 7200.0

Open = Callable[..., TwoTables]


class ArrowIceberg(IcebergCommits):
    """Arrow in place of Spark."""

    def schema_of(self, rows: Any) -> pa.Schema:
        return cast(pa.Schema, rows.schema)

    def write_files(self, rows: Any, unit: str, directory: str) -> None:
        length = {"day": 10, "month": 7, "year": 4}[unit]
        when = pc.utf8_slice_codeunits(pc.cast(rows["date"], pa.string()), 0, length)
        split = rows.append_column("by_topic", rows["topic"]).append_column("by_time", when)
        _write(split, directory.removeprefix("file://"), ["by_topic", "by_time"])

    def read_files(self, table: Any, paths: list[str], *, parts: int | None = None) -> Any:
        return ds.dataset([one.removeprefix("file://") for one in paths]).to_table()


class ArrowDelta(DeltaCommits):
    def schema_of(self, rows: Any) -> pa.Schema:
        return cast(pa.Schema, rows.schema)

    def write_files(self, rows: Any, directory: str) -> None:
        _write(rows, directory.removeprefix("file://"), ["topic", "date"])


def _write(rows: pa.Table, directory: str, by: list[str]) -> None:
    kinds = pa.schema([rows.schema.field(name) for name in by])
    ds.write_dataset(rows, directory, format="parquet", partitioning=ds.partitioning(kinds, flavor="hive"))


@pytest.fixture(params=["iceberg", "iceberg-sql", "delta"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setattr("tidelog.spark.pipelines.tables.iceberg.IcebergCommits", ArrowIceberg)
    monkeypatch.setattr("tidelog.spark.pipelines.tables.delta.DeltaCommits", ArrowDelta)
    nothing = cast(Any, None)  # no Spark session
    target = str(tmp_path / "archive")
    if request.param == "delta":
        return lambda **more: open_delta(nothing, target, more)
    if request.param == "iceberg":
        return lambda **more: open_iceberg(nothing, target, more)
    catalog = {"catalog": "lake", "type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    catalog |= {"warehouse": f"file://{tmp_path}/warehouse"}
    return lambda **more: open_iceberg(nothing, "raw.orders", {**catalog, **more})


def records(*offsets: int, day: int = 0, decoded: pa.StructType = DECODED, **fields: Any) -> pa.Table:
    """Offsets of partition 0."""
    moment = DAY + datetime.timedelta(days=day)
    headers = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("topicId", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("date", pa.date32()),
            ("value", pa.binary()),
            ("headers", headers),
            ("decoded", decoded),
        ]
    )
    rows = [
        {
            "topic": "007",
            "topicId": TOPIC_ID,
            "partition": 0,
            "offset": offset,
            "timestamp": moment,
            "date": moment.date(),
            "value": b"%d" % offset,
            "headers": [{"key": "k", "value": b"v"}],
            "decoded": {"id": offset, **fields},
        }
        for offset in offsets
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def undecodable(*offsets: int) -> pa.Table:
    return records(*offsets).drop_columns(["decoded"])


def at(end: int) -> Position:
    """Partition 1 is always at 9 and has no records."""
    return Position({PLACES[0]: Span(0, end), PLACES[1]: Span(9, 9)}) if end else Position()


def add(table: TwoTables, start: int, end: int, good: Any = None, broken: Any = None) -> Any:
    rows = Rows(cast(Any, records(*range(start, end)) if good is None else good), broken)
    return table.append(rows, Step(0, at(start), at(end)))


def offsets(table: TwoTables, part: str = "records") -> Counter[int]:
    """As another program sees the table."""
    one = table._records if part == "records" else table._undecodable
    if isinstance(one, IcebergCommits):
        found = one.load()
        assert found is not None
        return Counter(
            StaticTable.from_metadata(found.metadata_location).scan().to_arrow()["offset"].to_pylist()
        )
    assert isinstance(one, DeltaCommits)
    return Counter(Delta(one.path).to_pyarrow_table()["offset"].to_pylist())


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
    module: Any = iceberg if isinstance(opened()._records, IcebergCommits) else delta
    inner, name = module.read_mark, f"{module.__name__}.read_mark"
    overtaken = []

    def late(found: Any) -> Any:
        mark = inner(found)
        if len(overtaken) == 1:
            overtaken.append(True)
            monkeypatch.setattr(name, inner)
            add(opened(), 5, 12)
        elif not overtaken:
            overtaken.append(True)  # append() itself looks first
        return mark

    monkeypatch.setattr(name, late)
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
    assert opened().totals().undecodable == 0
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
    found = _decoded(opened())
    assert {one["id"]: one["name"] for one in found} == {0: None, 1: None, 2: "x", 3: "x", 4: None}
    other = pa.struct([pa.field("id", pa.struct([pa.field("n", pa.int32())]))])
    bad = records(5).drop_columns(["decoded"]).append_column("decoded", pa.array([{"id": {"n": 5}}], other))
    with pytest.raises(TableError, match="cannot take records of this schema"):
        add(opened(), 5, 6, bad)
    assert opened().position() == at(5)


def _decoded(table: TwoTables) -> list[dict[str, Any]]:
    one = table._records
    if isinstance(one, IcebergCommits):
        found = one.load()
        assert found is not None
        return cast(list[dict[str, Any]], found.scan().to_arrow()["decoded"].to_pylist())
    return cast(list[dict[str, Any]], Delta(one.path).to_pyarrow_table()["decoded"].to_pylist())


def test_numbers_become_wider_where_the_format_allows_it(opened: Open) -> None:
    add(opened(), 0, 2)
    wide = pa.struct([pa.field("id", pa.int64())])
    if isinstance(opened()._records, DeltaCommits):
        with pytest.raises(TableError, match="cannot take records of this schema"):
            add(opened(), 2, 3, records(2, decoded=wide))
        return
    add(opened(), 2, 3, records(2, decoded=wide, id=2**40))
    add(opened(), 3, 4)
    assert sorted(one["id"] for one in _decoded(opened())) == [0, 1, 3, 2**40]


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
