"""Tables that a stream fills: each micro-batch once, and never by a checkpoint that began again."""

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

from tidelog.spark.pipelines import files as stream_files
from tidelog.spark.pipelines.files import OtherCheckpoint, ParquetFiles
from tidelog.spark.pipelines.tables import PositionMoved
from unit.spark.pipelines.tables.interleaving import interleave
from unit.spark.pipelines.tables.memory_files import Died, MemoryFiles, dying

TABLE, CHECKPOINT = "/data/pages", "/data/state/query"


class Disk:
    """The table's directory and that of the checkpoint."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table: dict[str, bytes] = {}
        self.checkpoint: dict[str, bytes] = {}
        self.dies_at: int | None = None
        monkeypatch.setattr(stream_files, "files_at", self.files_at)
        monkeypatch.setattr(stream_files, "write_counted", self.write)
        self.begin("first")

    def files_at(self, spark: object, path: str) -> MemoryFiles:
        if path == CHECKPOINT:
            return MemoryFiles(self.checkpoint)
        if self.dies_at is not None:
            return dying(self.table, self.dies_at)
        return MemoryFiles(self.table)

    def write(self, rows: Any, partition_by: tuple[str, ...], path: str) -> int:
        """What Spark does with the rows of a micro-batch."""
        name = f"{path.removeprefix(TABLE)[1:]}/part-00000-x.c000.snappy.parquet"
        self.table[name] = json.dumps(rows).encode()
        return len(rows)

    def begin(self, checkpoint_id: str) -> None:
        self.checkpoint["metadata"] = json.dumps({"id": checkpoint_id}).encode()

    def add(self, rows: list[int], batch_id: int, dies_at: int | None = None) -> int:
        self.dies_at = dies_at
        return ParquetFiles(None, TABLE, CHECKPOINT).add(rows, batch_id)  # type: ignore[arg-type]

    def check(self) -> None:
        self.dies_at = None
        ParquetFiles(None, TABLE, CHECKPOINT).check()  # type: ignore[arg-type]

    def rows(self) -> list[int]:
        names = [name for name in self.table if name.endswith(".parquet") and not name.startswith("_")]
        return sorted(row for name in names for row in json.loads(self.table[name]))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_a_micro_batch_is_added_once(disk: Disk) -> None:
    disk.check()
    assert disk.add([1, 2], 0) == 2
    assert disk.add([1, 2], 0) == 0
    assert disk.add([3], 1) == 1
    assert disk.rows() == [1, 2, 3]
    disk.check()
    assert len([name for name in disk.table if not name.endswith(".parquet")]) == 1  # notes do not pile up


def test_a_micro_batch_that_is_killed_anywhere_is_added_once(disk: Disk) -> None:
    disk.add([1, 2], 0)
    start = dict(disk.table)
    finished = False
    for operation in range(30):
        disk.table = dict(start)
        try:
            disk.add([3], 1, dies_at=operation)
            finished = True
        except Died:
            disk.add([3], 1)
        assert disk.rows() == [1, 2, 3]
    assert finished


def test_a_checkpoint_that_began_again_is_refused(disk: Disk) -> None:
    disk.add([1, 2], 0)
    disk.checkpoint.clear()
    with pytest.raises(OtherCheckpoint, match=r"would add them a second time: restore that checkpoint, or"):
        disk.check()
    disk.begin("second")
    for ask in (disk.check, lambda: disk.add([1, 2, 3], 0), lambda: disk.add([3], 7)):
        with pytest.raises(OtherCheckpoint):
            ask()
    assert disk.rows() == [1, 2]


def test_a_table_without_rows_takes_any_checkpoint(disk: Disk) -> None:
    disk.add([], 0)
    disk.begin("second")
    disk.check()
    disk.add([1], 0)
    assert disk.rows() == [1]


def noted(disk: Disk, batches: int) -> None:
    """As released versions left it, killed while it moved a file of the next batch."""
    for batch in range(batches):
        disk.table[f"_batches/{batch}.json"] = json.dumps(
            {"batch_id": batch, "rows": 1, "files": []}
        ).encode()
        disk.table[f"batch-{batch:08}-00000-0.parquet"] = json.dumps([batch]).encode()
    disk.table[f"batch-{batches:08}-00000-0.parquet"] = json.dumps([batches]).encode()


def test_a_table_of_the_earlier_layout_continues(disk: Disk) -> None:
    noted(disk, 3)
    disk.check()
    assert disk.add([3], 3) == 1
    assert disk.rows() == [0, 1, 2, 3] and not any(name.startswith("_batches") for name in disk.table)


def test_the_last_batch_of_the_earlier_layout_may_run_again(disk: Disk) -> None:
    noted(disk, 3)
    assert disk.add([2], 2) == 0
    assert disk.add([3], 3) == 1
    assert disk.rows() == [0, 1, 2, 3]


def test_notes_of_the_earlier_layout_swallow_nothing(disk: Disk) -> None:
    """A checkpoint that was deleted counts its batches from zero again."""
    noted(disk, 3)
    with pytest.raises(OtherCheckpoint):
        disk.add([0, 1, 2, 3, 4], 0)
    disk.checkpoint.clear()
    with pytest.raises(OtherCheckpoint):
        disk.check()


@pytest.mark.slow
def test_two_drivers_that_repeat_the_same_micro_batch_add_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark lets only one driver begin a micro-batch, but any number repeat one that was not finished. Each
    is stopped after any of its operations while the other goes on, and continues later or never.
    """
    checkpoint = {"metadata": json.dumps({"id": "first"}).encode()}

    def write(rows: tuple[MemoryFiles, list[int]], partition_by: tuple[str, ...], path: str) -> int:
        files, numbers = rows
        files.write(f"{path.removeprefix(TABLE)[1:]}/part-00000-x.c000.parquet", json.dumps(numbers).encode())
        return len(numbers)

    monkeypatch.setattr(stream_files, "files_at", lambda spark, path: MemoryFiles(checkpoint))
    monkeypatch.setattr(stream_files, "write_counted", write)

    def add(files: MemoryFiles, numbers: list[int], batch_id: int) -> int:
        table: Any = ParquetFiles(None, TABLE, CHECKPOINT)  # type: ignore[arg-type]
        table.__dict__["_files"] = files
        return int(table.add((files, numbers), batch_id))

    def repeat(files: MemoryFiles) -> int:
        return add(files, [3, 4], 1)

    start: dict[str, bytes] = {}
    add(MemoryFiles(start), [1, 2], 0)
    (alone,) = interleave(dict(start), [repeat], [(0, None)])
    overtaken = 0
    for first in range(alone.operations + 1):
        for second in (*range(0, alone.operations + 1, 2), None):
            for end in ([], [(0, None), (1, None)], [(1, None), (0, None)]):
                contents = dict(start)
                schedule = [(0, first), (1, second), *end]
                for process in interleave(contents, [repeat, repeat], schedule):
                    moved = isinstance(process.outcome, PositionMoved)
                    assert moved or process.outcome in (None, 0, 2), (schedule, process.outcome)
                    overtaken += moved
                add(MemoryFiles(contents), [3, 4], 1)
                names = [name for name in contents if name.endswith(".parquet")]
                rows = sorted(row for name in names for row in json.loads(contents[name]))
                assert rows == [1, 2, 3, 4], schedule
    assert overtaken
