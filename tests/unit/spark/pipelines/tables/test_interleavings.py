"""Two runs and somebody who removes staged files, on one table of plain files: each is stopped after any of
its operations while the others go on, and continues later or never.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("pyspark")

from tidelog.spark.pipelines.tables import PositionMoved, Totals
from tidelog.spark.pipelines.tables.filesystem import FileInfo
from tidelog.spark.pipelines.tables.log import Entry, Log, placed
from unit.spark.pipelines.tables.interleaving import Work, interleave
from unit.spark.pipelines.tables.memory_files import MemoryFiles

END = 8  # The offset at which the topic ends.
Schedule = list[tuple[int, int | None]]


def step(files: MemoryFiles, end: int = END) -> bool:
    """One step of at most two rows; False if there is nothing to add. A row is its offset."""
    log = Log(files)
    before = log.last()
    position = int(before.position or 0)
    rows = range(position, min(position + 2, end))
    if not rows:
        return False
    staging = log.new_staging()
    for row in rows:
        files.write(f"{staging}/d/part-{row:05}-x.c000.snappy.parquet", json.dumps([row]).encode())
    moves = placed(log.staged(staging), staging, lambda inner: f"records/{inner}")
    log.commit(before, Entry(0, str(rows.stop), {}, Totals(rows.stop), staging, moves))
    return True


def merge(files: MemoryFiles) -> None:
    """As :meth:`ParquetTable._merge` does it."""
    log = Log(files)
    before = log.completed()
    names = [one.name for one in log.visible("records", before)]
    staging = log.new_staging()
    rows = [row for name in names for row in json.loads(files.read(name))]
    files.write(f"{staging}/part-00000-x.c000.snappy.parquet", json.dumps(rows).encode())
    moves = placed(log.staged(staging), staging, lambda _: "records/d")
    log.commit(before, replace(before, staging=staging, moves=moves, removes=names))


def archive(files: MemoryFiles) -> None:
    """A whole run."""
    Log(files).recover()
    while step(files, 6):
        pass


def expire(files: MemoryFiles) -> None:
    Log(files).recover()


def delete_staged(files: MemoryFiles) -> None:
    """A user, with ``rm -r _staging``."""
    files.delete("_staging")


def filled() -> dict[str, bytes]:
    files = MemoryFiles()
    while step(files, 4):
        pass
    return files.contents


def operations_of(work: Work) -> int:
    (process,) = interleave(filled(), [work], [(0, None)])
    return process.operations


def rows_in_place(files: MemoryFiles) -> list[int]:
    names = [one.name for one in files.files("records", recursive=True)]
    return sorted(row for name in names for row in json.loads(files.read(name)))


def rows_seen(files: MemoryFiles) -> list[int]:
    return sorted(row for one in Log(files).visible("records") for row in json.loads(files.read(one.name)))


def check(contents: dict[str, bytes], schedule: Schedule) -> None:
    files = MemoryFiles(contents)
    seen = rows_seen(files)
    assert seen == [*range(len(seen))], schedule
    entry = Log(files).recover()
    assert rows_in_place(files) == [*range(int(entry.position))], schedule
    assert entry.totals.records == int(entry.position), schedule
    while step(files):
        pass
    assert rows_in_place(files) == [*range(END)], schedule
    assert not files.exists("_staging") and len(files.files("_log")) == 1, schedule


def schedules(first: Work, remover: Work) -> Iterator[Schedule]:
    """The first is stopped anywhere, and the remover of staged files as well; the second goes on; what was
    stopped continues in either order, or never.
    """
    removals = 5
    for before in range(operations_of(first) + 1):
        for removed in (*range(0, removals, 2), None):
            stopped: Schedule = [(0, before), (1, removed), (2, None)]
            yield stopped
            yield [*stopped, (0, None), (1, None)]
            yield [*stopped, (1, None), (0, None)]


@pytest.mark.parametrize("remover", [delete_staged, expire])
@pytest.mark.parametrize("second", [step, merge, archive])
@pytest.mark.parametrize("first", [step, merge])
@pytest.mark.slow
def test_every_row_is_there_once(first: Work, second: Work, remover: Work) -> None:
    for schedule in schedules(first, remover):
        contents = filled()
        for process in interleave(contents, [first, remover, second], schedule):
            outcome = process.outcome
            # A merge reads files that another run has replaced meanwhile. Nothing is changed then.
            is_overtaken = isinstance(outcome, FileNotFoundError) and str(outcome).startswith("records/")
            is_fine = is_overtaken or isinstance(outcome, PositionMoved)
            assert is_fine or not isinstance(outcome, Exception), (schedule, outcome)
        check(contents, schedule)


def test_a_step_that_another_run_carries_out_stays_the_state_to_go_back_to() -> None:
    """Its owner sleeps between its commit and the look at the log. It wakes up when the other run has
    committed the next step, whose staged files a user deletes.
    """
    for slept in range(operations_of(step) + 1):
        contents = filled()
        owner, other, user = (0, slept), (1, operations_of(step) + 1), (2, None)
        schedule: Schedule = [owner, other, (0, None), user]
        interleave(contents, [step, step, delete_staged], schedule)
        check(contents, schedule)


def test_a_step_of_a_killed_run_whose_staged_files_are_deleted_is_not_lost_by_a_compaction() -> None:
    """Kill the archive, delete ``_staging``, compact: no two of them at the same time."""
    for killed in range(operations_of(step) + 1):
        contents = filled()
        schedule: Schedule = [(0, killed), (1, None), (2, None)]
        interleave(contents, [step, delete_staged, merge], schedule)
        check(contents, schedule)


def test_a_reader_that_lists_slowly_sees_every_row_of_a_merge() -> None:
    """All new files are moved, and the old ones removed, while it lists."""
    for before in range(operations_of(merge) + 1):
        contents = filled()
        interleave(contents, [merge], [(0, before)])
        assert rows_seen(SlowFiles(contents)) == [*range(4)], before


class SlowFiles(MemoryFiles):
    """Meanwhile, another run carries out what is pending; files that it removes may not be found."""

    def files(self, directory: str, *, recursive: bool = False) -> list[FileInfo]:
        found = super().files(directory, recursive=recursive)
        if directory == "records":
            Log(MemoryFiles(self.contents)).completed()
        return [one for one in found if one.name in self.contents]
