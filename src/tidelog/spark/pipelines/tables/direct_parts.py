"""What a task does to write the records that it fetches as Parquet files itself.

Owns which record goes to which file, and when a file is full. Fetched records are Arrow columns already; as
rows of Spark they would be copied into the JVM, converted twice, and written there, which costs several times
as much. Knows no table format and no Spark: :mod:`tidelog.spark.pipelines.tables.direct` starts the tasks.

A task writes below a directory of its own, whose name Spark and readers take for hidden. Spark's
driver moves the files of those that count, so what a lost or repeated task leaves is never part of a table.
"""

import shutil
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.spark.options import OptionError
from tidelog.spark.reading.ranges import JoinedRanges, TopicRange
from tidelog.spark.reading.settings import TaskSettings
from tidelog.spark.reading.tasks import read_each

HIDDEN = "_task-"
"""Begins the name of a task's directory."""
ROW_GROUP_BYTES = 32 << 20
"""Of Arrow columns, before they are encoded: what a task holds for each of the files that it fills."""
PENDING_BYTES_MAX = 96 << 20
"""Of all its files together."""
OPEN_FILES_MAX = 16
"""Records mostly come in the order of their times, so a task fills one file, or a few, at a time."""
REOPENED_MAX = 64
"""Times that a file was closed to make room and another one for the same day was begun: beyond it, the
records are in no order, and sorting them first makes fewer files."""

_DAY_US, _HOUR_US = 86_400_000_000, 3_600_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31, as days since 1970
_EPOCH = date(1970, 1, 1).toordinal()

FETCHED = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")


class Scattered(Exception):
    """The times of the records are in no order: too many files would be needed at once."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where records belong; picklable."""

    schema: pa.Schema  # Of the files.
    # Names of the directories: of the topic and of the time.
    by: tuple[str, str] = ("topic", "date")
    unit: str = "date"  # Of time: "date" as in the column of that name, or a unit of an Iceberg table.
    codec: str = "snappy"
    file_bytes: int = 128 << 20


class Part(NamedTuple):
    """A finished file."""

    path: str  # Relative to the directory of all tasks: first the task's own directory.
    rows: int
    bytes: int


def write_task(
    task: JoinedRanges | TopicRange,
    number: int,
    settings: TaskSettings,
    ids: dict[str, str],
    directory: str,
    layout: Layout,
    fetched: pa.Schema,
) -> list[Part]:
    """Raises :class:`Scattered`, or what reading and writing raise; then it leaves no file."""
    ranges = task.ranges if isinstance(task, JoinedRanges) else (task,)
    own = f"{HIDDEN}{uuid.uuid4().hex[:16]}"
    parts = PartFiles(Path(directory), own, number, layout)
    try:
        for one, batch in read_each(ranges, fetched, settings):
            parts.add(one.topic, ids.get(one.topic) or None, batch)
        return parts.close()
    except BaseException:
        parts.abandon()
        raise


class PartFiles:
    """The files of one task."""

    def __init__(self, directory: Path, own: str, number: int, layout: Layout) -> None:
        self._directory, self._own, self._number, self._layout = directory, own, number, layout
        self._topic = ""
        self._open: OrderedDict[int, _Part] = OrderedDict()  # By time; the one that was used last is last.
        self._closed: set[int] = set()  # Times of the present topic whose files were closed to make room.
        self._reopened = 0
        self._files = 0
        self._done: list[Part] = []

    def add(self, topic: str, topic_id: str | None, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if topic != self._topic:
            self._finish_all()
            self._closed.clear()
            self._topic = topic
        times_us = batch.column("timestamp").cast(pa.int64()).to_numpy()
        for key, rows in _by_time(times_us, self._layout.unit):
            some = batch if rows is None else batch.take(pa.array(rows))
            columns = _columns(self._layout.schema, some, topic, topic_id)
            self._part(key).add(pa.RecordBatch.from_arrays(columns, schema=self._layout.schema))
            self._make_room()

    def close(self) -> list[Part]:
        self._finish_all()
        return self._done

    def abandon(self) -> None:
        for one in self._open.values():
            one.abandon()
        self._open.clear()
        shutil.rmtree(self._directory / self._own, ignore_errors=True)

    def _part(self, key: int) -> "_Part":
        found = self._open.get(key)
        if found is not None and found.is_full:
            self._finish(key)
            found = None
        if found is None:
            if key in self._closed:
                self._reopened += 1
                if self._reopened > REOPENED_MAX:
                    raise Scattered(f"The times of {self._topic} are in no order.")
            if len(self._open) >= OPEN_FILES_MAX:
                oldest = next(iter(self._open))
                self._finish(oldest)
                self._closed.add(oldest)
            found = self._open[key] = self._begin(key)
        self._open.move_to_end(key)
        return found

    def _begin(self, key: int) -> "_Part":
        first, second = self._layout.by
        place = f"{first}={self._topic}/{second}={_name(key, self._layout.unit)}"
        # Numbers of the task and of the file, where Spark has them in its names.
        name = f"part-{self._number:05}-direct.c{self._files:03}.{self._layout.codec}.parquet"
        self._files += 1
        root = self._directory / self._own
        if not self._directory.exists():
            # It is not made here: the step may be over, or this may be the disk of another machine.
            raise OptionError(
                f"{self._directory}, which the driver made, is not there: the driver and all executors need "
                "the same disk under this path; otherwise use a file system that all of them reach."
            )
        (root / place).mkdir(parents=True, exist_ok=True)
        return _Part(root / place / name, f"{self._own}/{place}/{name}", self._layout)

    def _make_room(self) -> None:
        while sum(one.pending_bytes for one in self._open.values()) > PENDING_BYTES_MAX:
            max(self._open.values(), key=lambda one: one.pending_bytes).flush()

    def _finish(self, key: int) -> None:
        self._done.append(self._open.pop(key).close())

    def _finish_all(self) -> None:
        for key in list(self._open):
            self._finish(key)


@dataclass(slots=True)
class _Part:
    """A file that is being written."""

    path: Path
    name: str  # As in :class:`Part`.
    layout: Layout
    pending: list[pa.RecordBatch] = field(default_factory=list)
    pending_bytes: int = 0
    rows: int = 0
    writer: Any = None
    sink: Any = None

    @property
    def is_full(self) -> bool:
        return self.sink is not None and self.sink.tell() >= self.layout.file_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        self.pending.append(batch)
        self.pending_bytes += batch.nbytes
        self.rows += batch.num_rows
        if self.pending_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """What waits becomes one row group."""
        if not self.pending:
            return
        if self.writer is None:
            self._open()
        rows = pa.Table.from_batches(self.pending, self.layout.schema)
        self.writer.write_table(rows, row_group_size=rows.num_rows)
        self.pending, self.pending_bytes = [], 0

    def close(self) -> Part:
        self.flush()
        self.writer.close()
        self.sink.close()  # Where a full disk may be told only now.
        return Part(self.name, self.rows, self.path.stat().st_size)

    def abandon(self) -> None:
        self.pending = []
        for one in (self.writer, self.sink):
            with suppress(OSError):  # the disk is still full
                if one is not None:
                    one.close()

    def _open(self) -> None:
        names = self.layout.schema.names
        self.sink = pa.OSFile(str(self.path), "wb")
        self.writer = pq.ParquetWriter(
            self.sink,
            self.layout.schema,
            compression=self.layout.codec,
            store_schema=False,  # Other files of the table have none.
            use_dictionary=[one for one in names if one not in ("offset", "value")],
        )


def _by_time(times_us: Any, unit: str) -> Iterator[tuple[int, Any]]:
    """(time, indexes of its rows; None: all)."""
    keys = _keys(times_us, unit)
    first = int(keys[0])
    if (keys == first).all():
        yield first, None
        return
    order = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[order], return_index=True)
    for key, rows in zip(found, np.split(order, starts[1:]), strict=True):
        yield int(key), rows


def _keys(times_us: Any, unit: str) -> Any:
    if unit == "date":
        return np.clip(times_us // _DAY_US, _FIRST_DAY, _LAST_DAY)
    if unit in ("day", "hour"):
        return times_us // (_DAY_US if unit == "day" else _HOUR_US)
    letter = {"month": "M", "year": "Y"}[unit]
    return times_us.astype("datetime64[us]").astype(f"datetime64[{letter}]").astype(np.int64)


def _name(key: int, unit: str) -> str:
    """Only a date is ever read from the name again."""
    return date.fromordinal(_EPOCH + key).isoformat() if unit == "date" else str(key)


def _columns(schema: pa.Schema, batch: pa.RecordBatch, topic: str, topic_id: str | None) -> list[pa.Array]:
    made: list[pa.Array] = []
    for one in schema:
        if one.name == "topic":
            made.append(pa.repeat(pa.scalar(topic, one.type), batch.num_rows))
        elif one.name == "topicId":
            made.append(pa.repeat(pa.scalar(topic_id, one.type), batch.num_rows))
        elif one.name == "date":
            days = _keys(batch.column("timestamp").cast(pa.int64()).to_numpy(), "date")
            made.append(pa.array(days, pa.int32()).cast(one.type))
        else:
            made.append(batch.column(one.name))
    return made


def moved_up(directory: Path, parts: Iterable[Part]) -> list[Part]:
    """The files of the tasks that count, out of the tasks' own directories; those of others are removed."""
    found: list[Part] = []
    for part in parts:
        name = part.path.partition("/")[2]
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / part.path).replace(directory / name)
        found.append(Part(name, part.rows, part.bytes))
    for own in directory.glob(f"{HIDDEN}*"):
        shutil.rmtree(own, ignore_errors=True)
    return found
