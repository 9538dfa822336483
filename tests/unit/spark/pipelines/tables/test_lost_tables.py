"""Iceberg and Delta archives whose tables, metadata or steps were lost: nothing begins anew without a word,
and a step that fails leaves no files.
"""

import datetime
import errno
import os
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

from tidelog.spark.pipelines.tables import (
    Position,
    PositionMoved,
    Rows,
    Step,
    TableError,
    delta,
    delta_log,
    iceberg,
)
from tidelog.spark.pipelines.tables.delta import DeltaCommits
from tidelog.spark.pipelines.tables.iceberg import IcebergCommits
from tidelog.spark.pipelines.tables.staging import attempt_name, new_attempt
from unit.spark.pipelines.tables.arrow_tables import Open, add, at, offsets, opener, records, undecodable

pytestmark = pytest.mark.slow  # Each test writes real tables in three formats.


@pytest.fixture(params=["iceberg", "iceberg-sql", "delta"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    return opener(request.param, tmp_path, monkeypatch)


def drop(one: Any) -> None:
    """As a user does."""
    if isinstance(one, IcebergCommits) and one.identifier[1:]:
        one.catalog.drop_table(one.identifier)
    else:
        shutil.rmtree(one.path.removeprefix("file://"))


@pytest.mark.parametrize(("kind", "metadata"), [("iceberg", "metadata"), ("delta", "_delta_log")])
def test_a_table_whose_metadata_was_deleted_is_not_begun_anew(
    kind: str, metadata: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would lack what the topics have deleted since, and an expiry would remove the files."""
    opened = opener(kind, tmp_path, monkeypatch)
    home = tmp_path / "archive" / "records"
    add(opened(), 0, 4)
    files = sorted(home.rglob("*.parquet"))
    shutil.rmtree(home / metadata)
    assert opened().position() == Position() and files
    for _ in range(2):
        with pytest.raises(TableError, match=f"its {metadata} is gone: restore it from a copy"):
            add(opened(), 0, 4)
    assert sorted(home.rglob("*.parquet")) == files
    shutil.rmtree(home)
    add(opened(), 0, 4)
    assert offsets(opened()) == Counter(range(4))


def test_undecodable_records_of_an_archive_that_is_gone_are_not_added_again(opened: Open) -> None:
    add(opened(), 0, 4, records(0, 2, 3), undecodable(1))
    drop(opened()._records)
    opened().prepare(lambda text: None)  # It is not taken for an archive of an earlier version.
    with pytest.raises(TableError, match="has undecodable records, and its table of records is gone"):
        add(opened(), 0, 4, records(0, 2, 3), undecodable(1))
    assert offsets(opened(), "undecodable") == Counter([1])
    drop(opened()._undecodable)
    add(opened(), 0, 4, records(0, 2, 3), undecodable(1))
    assert offsets(opened()) + offsets(opened(), "undecodable") == Counter(range(4))


def test_a_step_that_fails_before_its_commit_leaves_no_files(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk must have room again; a run every five minutes would otherwise fill it further."""
    add(opened(), 0, 4, records(0, 2, 3), undecodable(1))
    before = sorted(tmp_path.rglob("*.parquet"))
    table = opened()
    one: Any = table._records
    write = one.write_files
    arrived: list[Path] = []

    def full(rows: Any, *more: Any) -> None:
        write(rows, *more)
        arrived.extend(set(tmp_path.rglob("*.parquet")) - {*before})
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(one, "write_files", full)
    with pytest.raises(OSError, match="No space left"):
        add(table, 4, 9, broken=undecodable(6))
    assert len(arrived) == 2 and sorted(tmp_path.rglob("*.parquet")) == before

    def deleted() -> None:
        raise PositionMoved("The topic was deleted while it was read.")

    with pytest.raises(PositionMoved):
        opened().append(Rows(cast(Any, records(4)), undecodable(5)), Step(0, at(4), at(6), deleted))
    assert sorted(tmp_path.rglob("*.parquet")) == before
    add(opened(), 4, 9, records(4, 5, 7, 8), undecodable(6))
    assert offsets(opened()) + offsets(opened(), "undecodable") == Counter(range(9))


def test_a_clock_that_is_set_back_leaves_the_times_of_a_table_in_order(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's Java readers refuse a table otherwise."""
    add(opened(), 0, 2)
    add(opened(), 2, 4)
    set_back_an_hour(monkeypatch)
    add(opened(), 4, 6, records(4, 5, decoded=pa.struct([("id", pa.int32()), ("name", pa.string())])))
    opened().compact(target_bytes=1 << 20, say=lambda text: None)
    opened().expire(older_than_ms=7_200_000, say=lambda text: None)
    assert offsets(opened()) == Counter(range(6)) and opened().position() == at(6)
    one = opened()._records
    if isinstance(one, IcebergCommits):
        found = one.load()
        assert found is not None
        logs = found.metadata.metadata_log, found.metadata.snapshot_log, found.metadata.snapshots
        for times in ([entry.timestamp_ms for entry in log] for log in logs):
            assert len(times) > 3 and times == sorted(times)
            assert found.metadata.last_updated_ms >= times[-1]


def set_back_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Late":
            return cls.fromtimestamp(time.time(), tz)

    now, now_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: now() - 3600)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() - 3600 * 10**9)
    monkeypatch.setattr("pyiceberg.table.update.datetime", Late)


def test_what_is_left_of_a_table_whose_files_were_deleted_can_be_read(opened: Open, tmp_path: Path) -> None:
    """For verification, which compares it with what the metadata counts."""
    add(opened(), 0, 3, records(0, 1), undecodable(2))
    first = {*tmp_path.rglob("*.parquet")}
    add(opened(), 3, 6, records(3, 4), undecodable(5))
    for file in first:
        file.unlink()
    table: Any = opened()
    with pytest.raises(FileNotFoundError):
        table.read()
    assert table.read(left=True)["offset"].to_pylist() == [3, 4]
    assert table.read_undecodable(left=True)["offset"].to_pylist() == [5]
    assert (table.totals().records, table.totals().undecodable) == (4, 2)


def test_damaged_metadata_of_iceberg_is_told_for_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not as a step whose files were removed, which is to be run again."""
    opened = opener("iceberg", tmp_path, monkeypatch)
    add(opened(), 0, 3)
    metadata = tmp_path / "archive" / "records" / "metadata"
    (manifests,) = metadata.glob("snap-*.avro")
    kept = manifests.read_bytes()
    manifests.unlink()
    with pytest.raises(TableError, match=r"lacks a file of its metadata: restore it .*snap-"):
        add(opened(), 3, 5)
    manifests.write_bytes(kept)
    newest = max(metadata.glob("v*.metadata.json"), key=lambda file: int(file.name[1:].partition(".")[0]))
    whole = newest.read_bytes()
    for damage in (whole[: len(whole) // 2], b"", b"{}"):
        newest.write_bytes(damage)
        with pytest.raises(TableError, match=f"{newest.name} is damaged: restore it from a copy"):
            add(opened(), 3, 5)
    newest.write_bytes(whole)
    add(opened(), 3, 5)
    assert offsets(opened()) == Counter(range(5))


def test_steps_and_killed_runs_leave_no_directories(opened: Open, tmp_path: Path) -> None:
    """A run every five minutes would make a hundred thousand of them a year, and each listing of the table
    would take longer.
    """

    def entries() -> list[str]:
        """Of steps: the names of directories that tables keep do not change."""
        found = (path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_dir())
        return sorted(path for path in found if "step-" in path)

    table: Any = opened()
    for start in range(0, 9, 3):
        add(table, start, start + 3, records(start, start + 1), undecodable(start + 2))
    is_delta = isinstance(table._records, DeltaCommits)
    assert not is_delta or not entries()
    # Of a run that was killed while Spark wrote, with a checksum beside its file.
    one, killed = table._undecodable, attempt_name(new_attempt())
    home = Path(one.path.removeprefix("file://")) / ("_staging" if is_delta else "data") / killed / "topic=7"
    home.mkdir(parents=True)
    for name in ("part-0.parquet", ".part-0.parquet.crc"):
        (home / name).write_bytes(b"x")
    table.compact(target_bytes=1 << 20, say=lambda text: None)
    opened().expire(older_than_ms=0, say=lambda text: None)
    assert (home / ".part-0.parquet.crc").exists(), "a step may be running"
    for path in [*tmp_path.rglob("*"), tmp_path]:
        os.utime(path, (0, 0))
    opened().expire(older_than_ms=0, say=lambda text: None)
    used = {path for path in entries() if any(Path(tmp_path, path).rglob("*.parquet"))}
    assert not home.parent.exists() and used == {*entries()}
    assert is_delta == (not used)
    assert offsets(opened()) + offsets(opened(), "undecodable") == Counter(range(9))


def test_rows_that_another_program_removed_stay_counted(opened: Open) -> None:
    """The table's own figures say nothing of them, and the topics may have deleted them since."""
    add(opened(), 0, 3, records(0, 2), undecodable(1))
    add(opened(), 3, 4)
    cast(Any, opened()._records).load().delete("offset < 3")
    assert offsets(opened()) == Counter([3])
    drop(opened()._undecodable)
    totals = opened().totals()
    assert (totals.records, totals.undecodable, opened().added()) == (1, 0, 4)
    add(opened(), 4, 6, records(4, 5))
    assert opened().added() == 6


def test_an_archive_goes_on_after_its_undecodable_records_were_deleted(opened: Open) -> None:
    """Also right behind a step that had some, which a run that was killed might not have completed."""
    add(opened(), 0, 4, records(0, 2, 3), undecodable(1))
    drop(opened()._undecodable)
    assert opened().read_undecodable() is None
    assert (opened().totals().undecodable, opened().added()) == (0, 4)
    opened().prepare(lambda text: None)
    add(opened(), 4, 6, records(4), undecodable(5))
    assert (offsets(opened()), offsets(opened(), "undecodable")) == (Counter([0, 2, 3, 4]), Counter([5]))
    assert (opened().totals().undecodable, opened().added()) == (1, 6)


def test_rows_of_an_earlier_version_are_counted_by_the_next_step(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert opened().added() is None  # There is no table yet.
    of_iceberg, of_delta = iceberg._said, delta_log.said
    with monkeypatch.context() as earlier:
        earlier.setattr(iceberg, "_said", lambda mark: _without_rows(of_iceberg(mark)))
        earlier.setattr(delta, "said", lambda *marks: _without_rows(dict(of_delta(*marks))).items())
        add(opened(), 0, 3)
    assert opened().added() is None
    add(opened(), 3, 5)
    assert opened().added() == 5


def _without_rows(said: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in said.items() if key not in (iceberg.ROWS, delta_log.ROWS)}
