"""Two runs that change a table of plain files at the same time, because a lock was broken or wrongly taken
over: no row is lost, and none is there twice.
"""

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JJavaError

from tidelog.spark.pipelines.tables import (
    Compacted,
    Position,
    PositionMoved,
    Rows,
    Step,
    TableError,
    Totals,
)
from tidelog.spark.pipelines.tables.filesystem import FileInfo, HadoopFiles, LocalFiles
from tidelog.spark.pipelines.tables.log import Entry, Log, placed
from tidelog.spark.pipelines.tables.merging import SmallFiles
from tidelog.spark.pipelines.tables.parquet import ParquetTable
from unit.spark.pipelines.tables.memory_files import Died, MemoryFiles, dying

DAY = "records/topic=orders/date=2026-05-17"


class Run:
    """What a run does in one step, and when."""

    def __init__(self, files: MemoryFiles) -> None:
        self.files, self.log = files, Log(files)

    def stage(self, *rows: int) -> None:
        self.before = self.log.last()
        self.staging = self.log.new_staging()
        inner = DAY.partition("/")[2]
        name = f"{self.staging}/{inner}/part-00000-x.c000.snappy.parquet"
        self.files.write(name, json.dumps(rows).encode())
        self.staged = self.log.staged(self.staging)
        self.count = len(rows)

    def commit(self) -> None:
        end = int(self.before.position or 0) + self.count
        moves = placed(self.staged, self.staging, lambda inner: f"records/{inner}")
        self.log.commit(self.before, Entry(0, str(end), {}, Totals(end), self.staging, moves))


def rows_of(files: MemoryFiles) -> list[int]:
    found = Log(files).visible("records")
    return sorted(row for one in found for row in json.loads(files.read(one.name)))


@pytest.mark.parametrize("steps_before", [0, 1, 2])
def test_a_run_whose_staged_files_were_removed_cannot_commit_them(steps_before: int) -> None:
    files = MemoryFiles()
    for number in range(steps_before):
        step = Run(files)
        step.stage(number)
        step.commit()
    first = Run(files)
    first.stage(steps_before)
    second = Run(files)
    second.log.recover()  # it broke the lock, or the clocks differ
    with pytest.raises(PositionMoved):
        first.commit()
    assert int(Log(files).last().position or 0) == steps_before == len(rows_of(files))
    first.stage(steps_before)
    first.commit()
    assert rows_of(files) == [*range(steps_before + 1)]


def test_files_that_are_staged_while_another_run_recovers_are_kept() -> None:
    files = MemoryFiles()
    abandoned = Run(files)
    abandoned.stage(0)
    first = Run(files)
    started = False

    def stage_once() -> None:
        nonlocal started
        if not started:  # when the first file was removed
            started = True
            first.stage(0)

    files.after = stage_once
    Log(files).recover()
    assert started
    first.commit()
    assert rows_of(files) == [0]


def test_files_of_a_task_that_lost_against_its_copy_do_not_count() -> None:
    step = Run(MemoryFiles())
    step.stage(0)
    late = f"{step.staging}/_temporary/0/_temporary/attempt_1/part-00000-x.c000.snappy.parquet"
    step.files.write(late, b"[0]")
    step.staged = step.log.staged(step.staging)
    step.commit()
    assert rows_of(step.files) == [0] and not any("_temporary" in name for name in step.files.contents)


class FakeHadoop:
    """A file system whose rename does not replace, as in HDFS; the other run acts before chosen calls."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.before: dict[str, Callable[[], object]] = {}

    def _call(self, name: str) -> None:
        self.before.pop(name, lambda: None)()

    def exists(self, name: str) -> bool:
        self._call("exists")
        return name in self.contents

    def getFileStatus(self, name: str) -> Any:
        self._call(f"status of {name}")
        if name not in self.contents:
            raise Py4JJavaError("no such file", SimpleNamespace(_target_id="o1", _gateway_client=None))
        return SimpleNamespace(getLen=lambda: len(self.contents[name]))

    def mkdirs(self, name: str) -> None:
        self._call("mkdirs")

    def rename(self, source: str, target: str) -> bool:
        self._call("rename")
        if source not in self.contents or target in self.contents:
            return False
        self.contents[target] = self.contents.pop(source)
        return True

    def delete(self, name: str, recursive: bool) -> None:
        self._call("delete")
        self.contents.pop(name, None)


class FakeHadoopFiles(HadoopFiles):
    def __init__(self, fs: FakeHadoop) -> None:
        self._fs = fs

    def _full(self, name: str) -> Any:
        return _Path(name)


class _Path(str):
    __slots__ = ()

    def getParent(self) -> str:
        return self.rpartition("/")[0]


@pytest.mark.parametrize("moment", ["", "status of a", "status of b", "mkdirs", "rename", "delete"])
@pytest.mark.parametrize("start", [{"a": b"12"}, {"b": b"12"}, {"a": b"12", "b": b"12"}])
def test_a_file_that_two_runs_move_is_not_lost(moment: str, start: dict[str, bytes]) -> None:
    fs = FakeHadoop(dict(start))
    other = FakeHadoopFiles(fs)
    fs.before[moment] = lambda: other.move("a", "b")
    FakeHadoopFiles(fs).move("a", "b")
    assert fs.contents == {"b": b"12"}


def test_a_copy_that_was_cut_off_is_made_again() -> None:
    fs = FakeHadoop({"a": b"12", "b": b"1"})
    FakeHadoopFiles(fs).move("a", "b")
    assert fs.contents == {"b": b"12"}


def test_a_log_whose_last_entry_is_replaced_while_it_is_listed_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be the log of a new table."""
    files = LocalFiles(str(tmp_path))
    first, second = "_log/000000000001.json", "_log/000000000002.json"
    files.write(first, Entry(1, "7").to_json())
    look = Path.stat

    def replaced_before(path: Path, **options: Any) -> Any:
        if path == tmp_path / first and not (tmp_path / second).exists():
            files.write(second, Entry(2, "8").to_json())
            path.unlink()
        return look(path, **options)

    monkeypatch.setattr(Path, "stat", replaced_before)
    assert Log(files).last().position == "8"


def test_a_damaged_log_is_told() -> None:
    files = MemoryFiles({"_log/000000000007.json": b"{}"})
    with pytest.raises(TableError, match=r"_log/000000000007.json cannot be read; restore it from a copy"):
        Log(files).last()


# -- merges --------------------------------------------------------------------------------


class FakeRows:
    """Reads and writes what Spark would."""

    def __init__(self, files: MemoryFiles, names: list[str]) -> None:
        self._files = files
        self._rows = [row for name in names for row in json.loads(files.read(name))]
        self.write = self

    def drop(self, *columns: str) -> "FakeRows":
        return self

    def coalesce(self, count: int) -> "FakeRows":
        return self

    def mode(self, mode: str) -> "FakeRows":
        return self

    def parquet(self, path: str) -> None:
        name = f"{path.removeprefix('/t/')}/part-00000-y-c000.snappy.parquet"
        self._files.write(name, json.dumps(self._rows).encode())


class FakeTable(ParquetTable):
    def __init__(self, files: MemoryFiles) -> None:
        super().__init__(cast(Any, None), "/t", {})
        self.__dict__["files"] = files

    def _load(self, schema: Any, part: str, names: list[str]) -> Any:
        return FakeRows(cast(MemoryFiles, self.files), names)


def with_two_files() -> tuple[dict[str, bytes], SmallFiles]:
    files = MemoryFiles()
    for number in range(2):
        step = Run(files)
        step.stage(number)
        step.commit()
    found = Log(files).visible("records")
    return files.contents, SmallFiles(DAY, [FileInfo(one.name, one.size) for one in found])


def test_files_that_another_run_is_merging_are_not_merged_again() -> None:
    """Whatever the other one has done of its merge."""
    start, group = with_two_files()
    count = operations_of(start, lambda files: FakeTable(files)._merge(group, 1000))
    assert count > 5
    outcomes = set()
    for operation in range(count):
        contents = dict(start)
        with pytest.raises(Died):
            FakeTable(dying(contents, operation))._merge(group, 1000)
        files = MemoryFiles(contents)
        outcomes.add(FakeTable(files)._merge(group, 1000) == Compacted())
        assert rows_of(files) == [0, 1]
        Log(files).recover()
        assert rows_of(files) == [0, 1]
    assert outcomes == {True, False}


def test_a_merge_whose_files_another_run_replaces_before_it_reads_them_ends_quietly() -> None:
    contents, group = with_two_files()
    files = MemoryFiles(contents)

    def overtake() -> None:
        files.after = lambda: None
        assert FakeTable(MemoryFiles(contents))._merge(group, 1000).removed_files == 2

    files.after = overtake
    assert FakeTable(files)._merge(group, 1000) == Compacted()
    assert rows_of(files) == [0, 1] and not files.exists("_staging")


def test_a_merge_that_fails_for_another_reason_says_so() -> None:
    contents, group = with_two_files()

    class Full(FakeTable):
        def _load(self, schema: Any, part: str, names: list[str]) -> Any:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        Full(MemoryFiles(contents))._merge(group, 1000)
    assert not MemoryFiles(contents).exists("_staging")


def test_a_step_that_fails_leaves_nothing_on_a_full_disk() -> None:
    files = MemoryFiles()

    class Full(FakeTable):
        def _grown(self, before: Entry, rows: Rows) -> dict[str, str]:
            return {}

        def _write(self, rows: Rows, staging: str) -> tuple[int, int]:
            files.write(f"{staging}/part-00000-x.c000.snappy.parquet", b"[0]")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        Full(files).append(Rows(cast(Any, None)), Step(0, Position(), Position()))
    assert not files.contents


def operations_of(contents: dict[str, bytes], change: Callable[[MemoryFiles], object]) -> int:
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1

    files = MemoryFiles(dict(contents))
    files.after = counted
    change(files)
    return count


# -- names ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["", "snappy.", "zstd.", "gz."])
@pytest.mark.parametrize("mark", ["-", "."])
def test_files_of_one_task_keep_names_of_their_own(codec: str, mark: str) -> None:
    unique = "6b1d3e6a-0d6b-4a3f-9d51-c12345678901"
    names = [f"_staging/s/d/part-00003-{unique}{mark}c{n:03}.{codec}parquet" for n in range(3)]
    moves = placed([FileInfo(name, 1) for name in names], "_staging/s", lambda inner: inner)
    assert [*moves.values()] == [f"d/s-00003-{n:03}.parquet" for n in range(3)]


def test_an_entry_is_new_until_something_is_added() -> None:
    assert Entry().is_new and replace(Entry(), number=3).is_new
    assert not Entry(position="[]").is_new
