"""An archive as directories of plain Parquet files, which every reader of Parquet understands.

Owns the layout below and how rows get into files. :mod:`tidelog.spark.pipelines.tables.log` makes changes
atomic.

============================== ==================================================================
``records/topic=…/date=…/``    the files
``undecodable/topic=…/date=…/`` the same for undecodable records
``_log/N.json``                the state: position, columns, totals; and the last change
``_staging/``                  what is being written; no reader looks into it
``_lock.json``                 the run that has the archive
============================== ==================================================================

Readers that only list directories see a step while its files are moved one by one, and, for the moment
between the two halves of a merge, records twice. :meth:`ParquetTable.read` sees neither.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.tables import (
    MARK,
    PARTITION_COLUMNS,
    Added,
    Compacted,
    Position,
    PositionMoved,
    Rows,
    Say,
    Step,
    TableError,
    Totals,
    check_directories,
    check_values,
)
from tidelog.spark.pipelines.tables.direct import direct_write
from tidelog.spark.pipelines.tables.filesystem import Files, files_at
from tidelog.spark.pipelines.tables.lock import locked
from tidelog.spark.pipelines.tables.log import Entry, Log, placed
from tidelog.spark.pipelines.tables.merging import SmallFiles, mergeable
from tidelog.spark.pipelines.tables.schemas import merged
from tidelog.spark.pipelines.tables.staging import NOTHING_IGNORED, arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

RECORDS = "records"
UNDECODABLE = "undecodable"
BREAK_LOCK = "break-lock"

# The number of files a task may have open before Spark sorts its rows by directory first, which costs more
# than writing them: a task has one topic, and its rows are of a few days.
_OPEN_FILES = 8
_OPEN_FILES_SETTING = "spark.sql.maxConcurrentOutputFileWriters"


class ParquetTable:
    def __init__(self, spark: "SparkSession", target: str, options: Mapping[str, str]) -> None:
        self.target = target.rstrip("/")
        self._spark = spark
        self._breaks_lock = options.get(BREAK_LOCK) == "true"
        self._messages: list[str] = []

    @cached_property
    def files(self) -> Files:
        return files_at(self._spark, self.target)

    @cached_property
    def log(self) -> Log:
        return Log(self.files)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with locked(self.files, self.target, breaks=self._breaks_lock, say=self._messages.append):
            yield

    def prepare(self, say: Say) -> None:
        for message in self._messages:
            say(message)
        self._messages.clear()
        if (entry := self.log.recover()).is_new:
            from tidelog.spark.pipelines.tables.earlier import take_over

            take_over(self._spark, self.target, self.files, self.log, entry, say)

    def position(self) -> Position:
        return self._position(self.log.last())

    def _position(self, entry: Entry) -> Position:
        try:
            return Position.from_json(entry.position or "[]")
        except (TypeError, ValueError):
            raise TableError(
                f"{self.target} is the table of another pipeline, not an archive: use another target."
            ) from None

    def totals(self) -> Totals:
        return self.log.last().totals

    def added(self) -> int | None:
        counted = self.totals()
        return counted.records + counted.undecodable

    # -- adding ----------------------------------------------------------------------------

    def append(self, rows: Rows, step: Step) -> Added:
        before = self.log.last()
        if self._position(before) != step.before:
            raise PositionMoved(f"Another run has added to {self.target} meanwhile; run the pipeline again.")
        check_directories(step.after, self.target)
        schemas = self._grown(before, rows)
        staging = "" if rows.is_empty else self.log.new_staging()
        try:
            records, undecodable = self._write(rows, staging) if staging else (0, 0)
            staged = self.log.staged(staging) if staging else []
            added = Added(records, undecodable, len(staged), sum(one.size for one in staged))
            step.confirm()
        except Exception:
            # A full disk must have room again, and a run that goes on may try often.
            if staging:
                self.log.discard(staging)
            raise
        change = Entry(
            position=step.after.to_json(),
            schemas=schemas,
            totals=_plus(before.totals, added),
            staging=staging,
            moves=placed(staged, staging, _final),
        )
        self.log.commit(before, change)
        return added

    def _grown(self, before: Entry, rows: Rows) -> dict[str, str]:
        """The columns with those of the rows, before anything is written."""
        grown = dict(before.schemas)
        for part, added in ((RECORDS, rows.records), (UNDECODABLE, rows.undecodable)):
            known = _schema(before, part)
            if added is not None and known is not None:
                check_values(known.fieldNames(), added.columns, f"{self.target}/{part}")
            if added is not None:
                schema = merged(known, added.schema, f"{self.target}/{part}")
                grown[part] = schema.json()
        return grown

    def _write(self, rows: Rows, staging: str) -> tuple[int, int]:
        """(records, undecodable ones)."""
        path = f"{self.target}/{staging}"
        if rows.raw is not None:
            schema = arrow_schema(rows.records.drop(*PARTITION_COLUMNS))
            direct = direct_write(self._spark, rows.raw, path, schema)
            if direct is not None and (parts := direct.run()) is not None:
                return sum(one.rows for one in parts), 0
        if rows.marked is None:
            return write_counted(rows.records, PARTITION_COLUMNS, path), 0
        from pyspark.sql import Observation, functions

        seen = Observation()
        observed = rows.marked.observe(seen, functions.count_if(functions.col(MARK)).alias("marked"))
        total = write_counted(observed, (MARK, *PARTITION_COLUMNS), path)
        return total - int(seen.get["marked"]), int(seen.get["marked"])

    # -- merging ---------------------------------------------------------------------------

    def compact(self, *, target_bytes: int, say: Say, files_min: int = 2) -> Compacted:
        """Concatenated without sorting: the rows of each file are already in the order of their partition,
        and a sort would cost more than all the rest.
        """
        if self.log.last().is_new:
            self.prepare(say)
        done = Compacted()
        groups = [
            group
            for part in (RECORDS, UNDECODABLE)
            for group in mergeable(self.log.visible(part), target_bytes, files_min)
        ]
        for number, group in enumerate(groups):
            say(f"merging small files: {number + 1} of {len(groups)} directories")
            one = self._merge(group, target_bytes)
            done = Compacted(
                done.removed_files + one.removed_files,
                done.added_files + one.added_files,
                done.removed_bytes + one.removed_bytes,
                done.added_bytes + one.added_bytes,
            )
        return done

    def _merge(self, group: SmallFiles, target_bytes: int) -> Compacted:
        # Another run may have merged these files meanwhile: in the state that this merge is based on, they
        # must still count, or their rows would be there twice.
        before = self.log.completed()
        part = group.directory.partition("/")[0]
        names = [one.name for one in group.files]
        if not {*names} <= {one.name for one in self.log.visible(part, before)}:
            return Compacted()
        staging = self.log.new_staging()
        try:
            rows = self._load(_schema(before, part), part, names).drop(*PARTITION_COLUMNS)
            count = max(round(group.size / target_bytes), 1)
            rows.coalesce(count).write.mode("overwrite").parquet(f"{self.target}/{staging}")
        except Exception:
            self.log.discard(staging)
            if {*names} <= {one.name for one in self.log.visible(part)}:
                raise
            return Compacted()  # another run replaced the files while they were read
        staged = self.log.staged(staging)
        size = sum(one.size for one in staged)
        totals = replace(
            before.totals,
            files=before.totals.files + len(staged) - len(names),
            bytes=before.totals.bytes + size - group.size,
        )
        moves = placed(staged, staging, lambda _: group.directory)
        self.log.commit(before, replace(before, totals=totals, staging=staging, moves=moves, removes=names))
        return Compacted(len(names), len(staged), group.size, size)

    def expire(self, *, older_than_ms: int, say: Say) -> Compacted:
        """Plain files have no snapshots: there is nothing but what killed runs left."""
        self.prepare(say)
        return Compacted()

    # -- reading ---------------------------------------------------------------------------

    def read(self, *, left: bool = False) -> "DataFrame":
        found = self._read(RECORDS)
        if found is None:
            raise OptionError(f"There is no archive in {self.target}: it has no records.")
        return found

    def read_undecodable(self, *, left: bool = False) -> "DataFrame | None":
        return self._read(UNDECODABLE)

    def _read(self, part: str) -> "DataFrame | None":
        """Of one state: Spark lists the files, and a change that was committed meanwhile begins it again."""
        while True:
            entry = self.log.last()
            found = self._read_state(part, entry)
            if self.log.last().number == entry.number:
                return found

    def _read_state(self, part: str, entry: Entry) -> "DataFrame | None":
        if entry.is_new:
            from tidelog.spark.pipelines.tables.earlier import read_earlier

            return read_earlier(self._spark, self.target, self.files, part)
        schema = _schema(entry, part)
        if schema is None:
            return None
        if not self.log.is_pending(entry):
            names = [part] if self.files.exists(part) else []
        else:
            names = [one.name for one in self.log.visible(part, entry)]
        return self._load(schema, part, names)

    def _load(self, schema: "StructType | None", part: str, names: list[str]) -> "DataFrame":
        """With all columns that any file has. A file that lacks one has null there."""
        if schema is None:
            raise OptionError(f"There is no archive in {self.target}: it has no {part}.")
        if not names:
            return self._spark.createDataFrame([], schema)
        reader = self._spark.read.schema(schema).option("basePath", f"{self.target}/{part}")
        reader = reader.options(**NOTHING_IGNORED)
        return reader.parquet(*(f"{self.target}/{name}" for name in names))


def write_counted(rows: "DataFrame", partition_by: tuple[str, ...], path: str) -> int:
    """Returns the number of rows."""
    from pyspark.sql import Observation, functions

    seen = Observation()
    observed = rows.observe(seen, functions.count(functions.lit(1)).alias("rows"))
    settings = rows.sparkSession.conf
    before = settings.get(_OPEN_FILES_SETTING, "0")
    if partition_by and before == "0":  # a user's choice stays
        settings.set(_OPEN_FILES_SETTING, str(_OPEN_FILES))
    try:
        observed.write.mode("overwrite").partitionBy(*partition_by).parquet(path)
    finally:
        if before is not None:
            settings.set(_OPEN_FILES_SETTING, before)
    return int(seen.get["rows"])


def _final(directory: str) -> str:
    """From the writer's directories to those of the archive."""
    mark, _, rest = directory.partition("/")
    if mark == f"{MARK}=true":
        return f"{UNDECODABLE}/{rest}"
    return f"{RECORDS}/{rest}" if mark == f"{MARK}=false" else f"{RECORDS}/{directory}"


def _schema(entry: Entry, part: str) -> "StructType | None":
    from pyspark.sql.types import StructType

    text = entry.schemas.get(part)
    return None if text is None else StructType.fromJson(json.loads(text))


def _plus(totals: Totals, added: Added) -> Totals:
    return Totals(
        totals.records + added.records,
        totals.undecodable + added.undecodable,
        totals.files + added.files,
        totals.bytes + added.bytes,
    )
