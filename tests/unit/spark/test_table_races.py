"""Two runs that change a table of plain files at the same time, because a lock was broken or wrongly taken
over: no row is lost, and none is there twice.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from memory_files import Died, MemoryFiles, dying

from tidelog.spark.pipelines.tables import Compacted, PositionMoved, TableError, Totals
from tidelog.spark.pipelines.tables.filesystem import FileInfo
from tidelog.spark.pipelines.tables.log import Entry, Log, placed
from tidelog.spark.pipelines.tables.merging import Group
from tidelog.spark.pipelines.tables.parquet import ParquetTable

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
        if not started and any(name.startswith("_log/") for name in files.contents):
            started = True
            first.stage(0)

    files.after = stage_once
    Log(files).recover()
    assert started
    first.commit()
    assert rows_of(files) == [0]


def test_lost_files_of_a_step_that_is_not_finished_are_told() -> None:
    contents: dict[str, bytes] = {}
    step = Run(MemoryFiles(contents))
    step.stage(0, 1)
    step.log = Log(dying(contents, 2))
    with pytest.raises(Died):
        step.commit()
    files = MemoryFiles(contents)
    assert Log(files).is_pending(Log(files).last())
    (name,) = (one for one in contents if one.endswith(".parquet"))
    del contents[name]
    for _ in range(2):
        with pytest.raises(TableError, match=f"1 of 1 files of the last step are gone from {step.staging}"):
            Log(files).recover()
    files.delete(step.staging)
    Log(files).recover()
    assert rows_of(files) == []


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


def with_two_files() -> tuple[dict[str, bytes], Group]:
    files = MemoryFiles()
    for number in range(2):
        step = Run(files)
        step.stage(number)
        step.commit()
    found = Log(files).visible("records")
    return files.contents, Group(DAY, [FileInfo(one.name, one.size) for one in found])


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
