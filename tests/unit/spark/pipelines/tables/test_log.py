"""The log of a table of plain files against a model: killed between any two operations, raced, read at any
moment.
"""

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

pytest.importorskip("pyspark")

from tidelog.spark.pipelines.tables import PositionMoved, Totals
from tidelog.spark.pipelines.tables.log import Entry, Log, placed
from unit.spark.pipelines.tables.memory_files import Died, MemoryFiles, dying


def stage(files: MemoryFiles, log: Log, parts: list[list[int]]) -> str:
    """What Spark does: files in a directory of their own."""
    staging = log.new_staging()
    for number, part in enumerate(parts):
        name = f"{staging}/day={number % 2}/part-{number:05}-x.c000.snappy.parquet"
        files.write(name, json.dumps(part).encode())
    return staging


def append(files: MemoryFiles, parts: list[list[int]], after: Entry | None = None) -> None:
    log = Log(files)
    before = log.last() if after is None else after
    staging = stage(files, log, parts)
    staged = log.staged(staging)
    count = sum(map(len, parts))
    log.commit(
        before,
        Entry(
            position=str(int(before.position or 0) + count),
            totals=Totals(before.totals.records + count),
            staging=staging,
            moves=placed(staged, staging, lambda inner: f"records/{inner}"),
        ),
    )


def merge(files: MemoryFiles, directory: str) -> None:
    log = Log(files)
    before = log.last()
    old = [one.name for one in log.visible("records") if one.name.startswith(f"records/{directory}/")]
    rows = [row for name in old for row in json.loads(files.read(name))]
    staging = stage(files, log, [rows])
    moves = placed(log.staged(staging), staging, lambda _: f"records/{directory}")
    log.commit(before, replace(before, staging=staging, moves=moves, removes=old))


def rows_seen(files: MemoryFiles) -> list[int]:
    log = Log(files)
    return sorted(row for one in log.visible("records") for row in json.loads(files.read(one.name)))


def in_place(files: MemoryFiles) -> list[int]:
    """What a reader sees that lists directories and knows nothing else."""
    names = [one.name for one in files.files("records", recursive=True)]
    return sorted(row for name in names for row in json.loads(files.read(name)))


def operations_of(contents: dict[str, bytes], change: Callable[[MemoryFiles], None]) -> int:
    count = 0

    def counted() -> None:
        nonlocal count
        count += 1

    files = MemoryFiles(dict(contents))
    files.after = counted
    change(files)
    return count


def filled() -> dict[str, bytes]:
    files = MemoryFiles()
    append(files, [[0, 1], [2], [3, 4]])
    append(files, [[5], [6, 7]])
    append(files, [[8]])
    return files.contents


CHANGES: dict[str, Callable[[MemoryFiles], None]] = {
    "append": lambda files: append(files, [[9], [10, 11], [12]]),
    "merge": lambda files: merge(files, "day=0"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_killed_anywhere_happens_as_a_whole_or_not_at_all(name: str) -> None:
    change, start = CHANGES[name], filled()
    count = operations_of(start, change)
    assert count > 8
    outcomes = set()
    for operation in range(count):
        contents = dict(start)
        with pytest.raises(Died):
            change(dying(contents, operation))
        survivor = MemoryFiles(contents)
        committed = Log(survivor).last().number == 4
        # Killed again and again while it recovers, then left alone.
        for again in range(30):
            try:
                Log(dying(contents, again)).recover()
            except Died:
                continue
            break
        entry = Log(survivor).last()
        expected = list(range(13 if name == "append" and committed else 9))
        assert rows_seen(survivor) == in_place(survivor) == expected
        assert int(entry.position) == entry.totals.records == len(expected)
        assert not survivor.exists("_staging") and len(survivor.files("_log")) == 1
        outcomes.add(committed)
        # The next run sees what is missing, and goes on.
        if name == "merge" or not committed:
            change(survivor)
        assert in_place(survivor) == list(range(int(Log(survivor).last().position)))
    assert outcomes == {True, False}


@pytest.mark.parametrize("name", CHANGES)
def test_a_reader_sees_a_change_as_a_whole_at_any_moment(name: str) -> None:
    contents = filled()
    files, seen = MemoryFiles(contents), []
    files.after = lambda: seen.append(rows_seen(MemoryFiles(contents)))
    CHANGES[name](files)
    allowed = [list(range(9)), list(range(13))] if name == "append" else [list(range(9))]
    assert all(rows in allowed for rows in seen)
    assert seen[-1] == allowed[-1]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_whose_staged_files_are_deleted_is_undone_or_complete(name: str) -> None:
    """By a user, who takes them for what a dead run left."""
    change, start = CHANGES[name], filled()
    undone = 0
    for operation in range(operations_of(start, change)):
        contents = dict(start)
        with pytest.raises(Died):
            change(dying(contents, operation))
        MemoryFiles(contents).delete("_staging")
        committed = Log(MemoryFiles(contents)).last().number == 4
        for again in range(40):
            try:
                Log(dying(contents, again)).recover()
            except Died:
                continue
            break
        survivor = MemoryFiles(contents)
        entry = Log(survivor).last()
        assert rows_seen(survivor) == in_place(survivor) == list(range(int(entry.position)))
        assert entry.totals.records == int(entry.position)
        undone += committed and entry.number > 4
        if int(entry.position) == 9:
            change(survivor)
            assert in_place(survivor) == list(range(13 if name == "append" else 9))
    assert undone


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("lost", ["_log", "the last entry"])
def test_a_change_whose_entry_is_deleted_while_files_are_moved_is_finished_or_undone(
    name: str, lost: str
) -> None:
    """By a user, who takes the log for damaged. What is in place is then all that tells the position."""
    change, start = CHANGES[name], filled()
    outcomes = set()
    for operation in range(operations_of(start, change)):
        contents = dict(start)
        with pytest.raises(Died):
            change(dying(contents, operation))
        survivor = MemoryFiles(contents)
        entries = [one.name for one in survivor.files("_log")]
        beside = [one.name for one in survivor.files("_staging")]
        if lost != "_log" and (len(entries) < 2 or not any(name.endswith(".change") for name in beside)):
            continue  # One entry is the log. Two without a change are there for the moment of a deletion.
        survivor.delete("_log" if lost == "_log" else entries[-1])
        for again in range(40):
            try:
                Log(dying(contents, again)).recover()
            except Died:
                continue
            break
        rows = in_place(survivor)
        assert rows == list(range(len(rows))) and len(rows) in (9, 13)
        if lost != "_log":
            assert rows == rows_seen(survivor) == list(range(9))
        assert not survivor.exists("_staging")
        outcomes.add(len(rows))
    assert outcomes == ({9, 13} if (name, lost) == ("append", "_log") else {9})


def test_a_first_change_whose_staged_files_are_deleted_is_undone() -> None:
    for operation in range(operations_of({}, CHANGES["append"])):
        contents: dict[str, bytes] = {}
        with pytest.raises(Died):
            append(dying(contents, operation), [[0], [1, 2], [3]])
        survivor = MemoryFiles(contents)
        survivor.delete("_staging")
        Log(survivor).recover()
        assert in_place(survivor) == list(range(int(Log(survivor).last().position or 0)))


@pytest.mark.parametrize("name", CHANGES)
def test_a_run_that_recovers_beside_another_costs_no_row(name: str) -> None:
    """Its lock was deleted: at any moment of a change another run may remove what is staged."""
    start = filled()
    for operation in range(operations_of(start, CHANGES[name])):
        contents, left = dict(start), operation
        files = MemoryFiles(contents)

        def count(contents: dict[str, bytes] = contents) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                Log(MemoryFiles(contents)).recover()

        files.after = count
        with suppress(PositionMoved):
            CHANGES[name](files)
        Log(files).recover()
        assert in_place(files) == rows_seen(files) == list(range(int(Log(files).last().position)))


def test_a_file_that_is_deleted_later_undoes_nothing() -> None:
    """Such as a day that nobody needs any more."""
    files = MemoryFiles(filled())
    before = Log(files).last()
    files.delete("records/day=0")
    assert Log(files).recover() == before


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_the_disk_has_no_room_for_leaves_nothing_behind(name: str) -> None:
    """Or the disk would stay full, and the next run could not even take its lock."""
    files = MemoryFiles(filled())
    entries = {one.name for one in files.files("_log")}

    class FullDisk(MemoryFiles):
        def create(self, name: str, content: bytes) -> bool:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    with pytest.raises(OSError, match="No space left"):
        CHANGES[name](FullDisk(files.contents))
    assert {one.name for one in files.files("_log")} == entries and not files.exists("_staging")
    CHANGES[name](files)
    assert in_place(files) == rows_seen(files) == list(range(13 if name == "append" else 9))


def test_of_two_changes_to_one_state_the_second_is_refused() -> None:
    files = MemoryFiles(filled())
    state = Log(files).last()
    append(files, [[9]], state)
    with pytest.raises(PositionMoved, match="run the pipeline again"):
        append(files, [[9]], state)
    assert rows_seen(files) == list(range(10))


def test_a_change_that_was_delayed_over_several_others_is_refused() -> None:
    """The numbers of old entries are free again: nothing may be committed under them."""
    files = MemoryFiles(filled())
    state = Log(files).last()
    for number in range(9, 13):
        append(files, [[number]])
    with pytest.raises(PositionMoved):
        append(files, [[9]], state)
    assert rows_seen(files) == in_place(files) == list(range(13))
    assert Log(files).last().position == "13"


def test_a_change_on_top_of_one_that_was_never_finished_finishes_it() -> None:
    """Its owner died after its commit; we did not begin by recovering."""
    contents = filled()
    for operation in range(operations_of(contents, CHANGES["append"])):
        killed = dict(contents)
        with pytest.raises(Died):
            CHANGES["append"](dying(killed, operation))
        files = MemoryFiles(killed)
        if Log(files).last().number == 4:
            append(files, [[13]])
            assert in_place(files) == list(range(14))


class Table(RuleBasedStateMachine):
    """Appends and merges by runs that die anywhere and by runs with an outdated state."""

    def __init__(self) -> None:
        super().__init__()
        self.contents: dict[str, bytes] = {}
        self.states: list[Entry] = []

    @property
    def files(self) -> MemoryFiles:
        return MemoryFiles(self.contents)

    @rule(sizes=st.lists(st.integers(0, 3), min_size=1, max_size=4), dies_at=st.integers(0, 25))
    def append(self, sizes: list[int], dies_at: int) -> None:
        next_row = int(Log(self.files).last().position or 0)
        parts = []
        for size in sizes:
            parts.append(list(range(next_row, next_row + size)))
            next_row += size
        self.killed(lambda files: append(files, parts), dies_at)

    @rule(directory=st.sampled_from(["day=0", "day=1"]), dies_at=st.integers(0, 25))
    @precondition(lambda self: Log(self.files).last().number > 0)
    def merge(self, directory: str, dies_at: int) -> None:
        self.killed(lambda files: merge(files, directory), dies_at)

    def killed(self, change: Callable[[MemoryFiles], None], dies_at: int) -> None:
        self.states.append(Log(self.files).last())
        try:
            Log(self.files).recover()  # as every run does
            change(dying(self.contents, dies_at))
        except Died:
            pass

    @rule(data=st.data())
    @precondition(lambda self: bool(self.states))
    def commit_late(self, data: st.DataObject) -> None:
        """A run that planned its change long ago."""
        state = data.draw(st.sampled_from(self.states))
        files = self.files
        if Log(files).last().number == state.number:
            return
        before = in_place(files)
        with pytest.raises(PositionMoved):
            append(files, [[int(state.position or 0)]], state)
        assert in_place(files) == before

    @rule(dies_at=st.integers(0, 25))
    def recover(self, dies_at: int) -> None:
        try:
            Log(dying(self.contents, dies_at)).recover()
        except Died:
            return
        assert in_place(self.files) == rows_seen(self.files) == self.expected()

    @rule(dies_at=st.integers(0, 25))
    def delete_staging(self, dies_at: int) -> None:
        self.files.delete("_staging")
        try:
            Log(dying(self.contents, dies_at)).recover()
        except Died:
            Log(self.files).recover()
        assert in_place(self.files) == rows_seen(self.files) == self.expected()

    def expected(self) -> list[int]:
        return list(range(int(Log(self.files).last().position or 0)))

    @invariant()
    def every_row_is_there_once(self) -> None:
        files = self.files
        log = Log(files)
        seen = rows_seen(files)
        if log.is_pending(log.last()):
            assert seen == list(range(len(seen))) and len(seen) <= len(self.expected())
        else:
            assert seen == in_place(files) == self.expected()
        assert len(files.files("_log")) <= 2


TestTable = Table.TestCase
TestTable.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
