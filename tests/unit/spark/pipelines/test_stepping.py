"""The driver loop of an archive with a table and a cluster in memory: no Spark is started."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException, PySparkRuntimeError

from tidelog.client.errors import ClusterUnreachable
from tidelog.spark.pipelines import running, stepping
from tidelog.spark.pipelines.archive_plan import Ranges
from tidelog.spark.pipelines.archive_view import Asked, Seen, View
from tidelog.spark.pipelines.source import Topics
from tidelog.spark.pipelines.stepping import Outcome, Pace, RecordsLost, Stepper
from tidelog.spark.pipelines.tables import (
    Added,
    Compacted,
    Place,
    Position,
    PositionMoved,
    Rows,
    Say,
    Span,
    Step,
    TableError,
    TableLocked,
    Totals,
)

ORDERS = Place("orders", "an-id", 0)


@dataclass
class MemoryTable:
    """Implements ``Table``; rows are offsets."""

    target: str = "memory"
    at: Position = field(default_factory=Position)
    rows: list[tuple[Place, int]] = field(default_factory=list)
    steps: list[Ranges] = field(default_factory=list)
    compactions: int = 0
    is_locked: bool = False
    trouble: list[Callable[[Step], None]] = field(default_factory=list)  # of the next appends

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        if self.is_locked:
            raise TableLocked("Another run has memory.")
        self.is_locked = True
        try:
            yield
        finally:
            self.is_locked = False

    def prepare(self, say: Say) -> None:
        say("prepared")

    def position(self) -> Position:
        return self.at

    def append(self, rows: Rows, step: Step) -> Added:
        if self.trouble:
            self.trouble.pop(0)(step)
        if step.before != self.at:
            raise PositionMoved("Another run was faster.")
        ranges: Ranges = rows.records  # type: ignore[assignment]
        assert rows.is_empty == (not ranges)
        step.confirm()
        new = [(place, offset) for place, span in ranges.items() for offset in range(*span)]
        self.rows += new
        self.steps.append(ranges)
        self.at = step.after
        return Added(records=len(new), files=1, bytes=10 * len(new))

    def compact(self, *, target_bytes: int, say: Say, files_min: int = 2) -> Compacted:
        self.compactions += 1
        return Compacted(removed_files=5, added_files=1)

    def expire(self, *, older_than_ms: int, say: Say) -> Compacted:
        return Compacted()

    def read(self, *, left: bool = False) -> Any: ...

    def read_undecodable(self, *, left: bool = False) -> Any: ...

    def totals(self) -> Totals:
        return Totals(records=len(self.rows))

    def added(self) -> int:
        return len(self.rows)


@dataclass
class MemoryCluster:
    partitions: dict[Place, Span] = field(default_factory=lambda: {ORDERS: Span(0, 25)})
    looks: int = 0
    when_looked: Callable[[], None] = lambda: None

    def look(self, spark: object, asked: Asked) -> View:
        self.looks += 1
        self.when_looked()
        return View([Seen(place, *span, span.start) for place, span in self.partitions.items()])


@dataclass
class Run:
    table: MemoryTable
    cluster: MemoryCluster
    stop: Event = field(default_factory=Event)
    told: list[int] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    rows_of: Callable[[Any, Any], Rows] = lambda ranges, ids: Rows(ranges, is_empty=not ids)

    def __call__(self, pace: Pace | None = None, **more: Any) -> Outcome:
        pace = pace or Pace(rows_per_step=10)

        def tell(progress: running.Progress) -> None:
            if progress.what == "rows":
                self.told.append(progress.rows)
            else:
                self.said.append(progress.what)

        return Stepper(
            None,  # type: ignore[arg-type]
            self.table,
            Topics("127.0.0.1:1", "orders"),
            self.rows_of,
            pace=pace,
            stop=self.stop,
            tell=tell,
            **more,
        ).run()

    def offsets(self, place: Place = ORDERS) -> list[int]:
        return [offset for found, offset in self.table.rows if found == place]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    made = Run(MemoryTable(), MemoryCluster())
    monkeypatch.setattr(stepping, "look", made.cluster.look)
    monkeypatch.setattr(stepping, "read_ranges", lambda spark, topics, ranges: ranges)
    for module, name in ((stepping, "_SHRUNK_PAUSE_S"), (running, "PAUSE_S"), (running, "PAUSE_MAX_S")):
        monkeypatch.setattr(module, name, 0.0)
    return made


def test_steps_are_bounded_and_told(run: Run) -> None:
    outcome = run()
    assert run.offsets() == list(range(25)) and run.told == [10, 20, 25]
    assert (outcome.added.records, outcome.steps, outcome.lag) == (25, 3, {"orders": 0})
    assert outcome.notes == ["prepared"] and not run.table.is_locked
    assert run().steps == 0


def test_a_stop_comes_between_steps(run: Run) -> None:
    run.table.trouble = [lambda step: None, lambda step: run.stop.set()]
    outcome = run()
    assert run.offsets() == list(range(20)) and outcome.steps == 2 and outcome.lag == {"orders": 5}
    run.stop.clear()
    run()
    assert run.offsets() == list(range(25))


def test_a_run_that_was_overtaken_goes_on_from_there(run: Run) -> None:
    def overtake(step: Step) -> None:
        run.table.rows += [(ORDERS, offset) for offset in range(10, 17)]
        run.table.at = Position({ORDERS: Span(0, 17)})

    run.table.trouble = [lambda step: None, overtake]
    assert run().added.records == 18
    assert run.offsets() == list(range(25))


def test_a_run_that_is_always_overtaken_gives_up(run: Run) -> None:
    def always(step: Step) -> None:
        run.table.trouble.append(always)
        raise PositionMoved("Another run was faster.")

    run.table.trouble = [always]
    with pytest.raises(PositionMoved, match="Another run was faster"):
        run()
    assert not run.offsets()


def test_records_that_vanish_while_they_are_read_are_planned_again(run: Run) -> None:
    def vanish(step: Step) -> None:
        run.cluster.partitions[ORDERS] = Span(15, 25)
        raise PySparkRuntimeError("tidelog.spark.reading.loss.DataLoss: [10, 15) is gone")

    run.table.trouble = [lambda step: None, vanish]
    with pytest.raises(RecordsLost, match=r"begins at offset 15, and was archived up to 10.*--allow-loss"):
        run()
    assert run.offsets() == list(range(10))
    outcome = run(allows_loss=True)
    assert run.offsets() == [*range(10), *range(15, 25)] and outcome.notes[1].startswith("Lost: orders-0")
    assert run.table.at.spans == {ORDERS: Span(0, 25)}


def test_a_topic_that_is_created_again_while_it_is_read_is_not_mixed_up(run: Run) -> None:
    again = ORDERS._replace(topic_id="another-id")

    def replace(step: Step) -> None:
        run.cluster.partitions = {again: Span(0, 3)}

    run.table.trouble = [lambda step: None, replace]
    outcome = run()
    assert run.offsets() == list(range(10)) and run.offsets(again) == [0, 1, 2]
    assert "deleted and created again" in outcome.notes[1]


def test_other_failures_are_told_and_a_busy_machine_is_not_one(run: Run) -> None:
    def fail(reason: str) -> Callable[[Step], None]:
        def failing(step: Step) -> None:
            raise PySparkRuntimeError(reason)

        return failing

    run.table.trouble = [fail("Python worker failed to connect back."), lambda step: None, fail("no space")]
    with pytest.raises(PySparkRuntimeError, match="no space"):
        run()
    assert run.offsets() == list(range(10))


def test_a_partition_that_shrank_for_a_moment_is_asked_again(run: Run) -> None:
    run()
    run.cluster.partitions[ORDERS] = Span(0, 20)

    def recover() -> None:
        if run.cluster.looks > looks + 35:  # until followers that are gone have left the in-sync set
            run.cluster.partitions[ORDERS] = Span(0, 30)

    looks = run.cluster.looks
    run.cluster.when_looked = recover
    run()
    assert run.offsets() == list(range(30))
    run.cluster.when_looked = lambda: None
    run.cluster.partitions[ORDERS] = Span(0, 20)
    run.said.clear()
    with pytest.raises(RecordsLost, match="ends at offset 20, and was archived up to 30"):
        run()
    assert set(run.said) == {
        "rows; waiting: a topic ends before what was archived of it; its leader may be new"
    }


def test_a_run_that_goes_on_looks_again_and_merges_now_and_then(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow() -> None:
        run.cluster.partitions[ORDERS] = Span(0, 10 * run.cluster.looks)
        if run.cluster.looks > 40:
            run.stop.set()

    run.cluster.when_looked = grow
    outcome = run(Pace(10, None, every_s=0.0), compact_bytes=1)
    assert run.offsets() == list(range(len(run.offsets()))) and outcome.steps > 10
    assert run.table.compactions == 0  # an hour has not passed
    monkeypatch.setattr(stepping, "COMPACT_EVERY_S", 0.0)
    run.stop.clear()
    run.cluster.looks = 30
    outcome = run(Pace(10, None, every_s=0.0), compact_bytes=1)
    assert run.table.compactions > 1 and outcome.merged_files == 4 * run.table.compactions


def test_a_pace_is_kept(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(run.stop, "wait", waited.append)
    run(Pace(rows_per_step=1000, rows_per_second=1))
    assert run.told == [10, 20, 25]  # what may be read in ten seconds
    assert [round(seconds) for seconds in waited] == [10, 10, 5]


def test_small_files_are_merged_at_the_end(run: Run) -> None:
    assert run(compact_bytes=1).merged_files == 4
    assert run.table.compactions == 1


@pytest.mark.parametrize(
    "failure",
    [
        TableError("The merged files would have another number of rows."),
        PySparkException("[FAILED_READ_FILE.FILE_NOT_EXIST] There is no /data/a.parquet.\n\tat java.x"),
        OSError("No space left on device"),
    ],
)
def test_a_merge_that_fails_does_not_spoil_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """As after somebody deleted a file of the table. The records of the run are added."""

    def compact(**more: Any) -> Compacted:
        raise failure

    monkeypatch.setattr(run.table, "compact", compact)
    outcome = run(compact_bytes=1)
    assert run.offsets() == list(range(25)) and outcome.lag == {"orders": 0}
    _, note = outcome.notes
    reason = str(failure).splitlines()[0].rstrip(".")
    assert note == f"Small files were not merged ({reason}); `tidelog pipeline verify` tells more."


def test_a_second_run_ends(run: Run) -> None:
    run.table.is_locked = True
    with pytest.raises(TableLocked):
        run()


def test_a_cluster_that_is_down_at_the_end_does_not_spoil_the_run(run: Run) -> None:
    def fail_at_the_end() -> None:
        if run.offsets() == list(range(25)):
            raise ClusterUnreachable("Nothing worked.")

    run.cluster.when_looked = fail_at_the_end
    outcome = run()
    assert outcome.steps == 3 and outcome.lag == {}


def test_a_partition_with_more_than_its_share_is_read_by_several_tasks() -> None:
    topics = Topics("127.0.0.1:1", "orders")
    skewed = {ORDERS: Span(0, 9_000_000), ORDERS._replace(partition=1): Span(0, 1_000_000)}
    given = stepping.options_of(topics, skewed, 4)
    assert given["maxRecordsPerPartition"] == "2500000"
    few = {ORDERS: Span(0, 1000)}
    assert stepping.options_of(topics, few, 4)["maxRecordsPerPartition"] == str(stepping.SPLIT_OFFSETS_MIN)
    chosen = Topics("127.0.0.1:1", "orders", options={"minPartitions": "3"})
    assert "maxRecordsPerPartition" not in stepping.options_of(chosen, skewed, 4)


def test_tables_are_told_where_rows_come_from_only_if_they_are_as_they_were_fetched(run: Run) -> None:
    seen: list[Rows] = []
    append = run.table.append

    def spying(rows: Rows, step: Step) -> Added:
        seen.append(rows)
        return append(rows, step)

    run.table.append = spying  # type: ignore[method-assign]
    run.rows_of = lambda ranges, ids: Rows(ranges, is_empty=not ids, is_raw=True)
    run(compact_bytes=64)
    raw = seen[0].raw
    assert raw is not None and raw.topic_ids == {"orders": "an-id"} and raw.file_bytes == 64
    assert json.loads(raw.options["endingOffsets"]) == {"orders": {"0": 10}}
    run.table.at, run.table.rows = Position(), []
    run.rows_of = lambda ranges, ids: Rows(ranges, is_empty=not ids)
    run()
    assert seen[-1].raw is None
