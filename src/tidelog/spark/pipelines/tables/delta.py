"""Archives as Delta tables: files that Spark writes and the package deltalake commits, so no jar is needed.

Owns what an archive's table looks like in Delta. :mod:`tidelog.spark.pipelines.tables.delta_log` says what is
in its log, :mod:`tidelog.spark.pipelines.tables.delta_upkeep` merges small files. Checkpoints of the log and
the conditions of commits are Delta's.
"""

import json
import math
import shutil
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from deltalake import CommitProperties, Transaction, write_deltalake
from deltalake import DeltaTable as Delta
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction, RemoveAction

from tidelog.spark.pipelines.tables import (
    PARTITION_COLUMNS,
    Compacted,
    Position,
    PositionMoved,
    Raw,
    Say,
    TableError,
    check_values,
)
from tidelog.spark.pipelines.tables.delta_log import lacks_fields, list_topics, read_mark, said
from tidelog.spark.pipelines.tables.direct import direct_write
from tidelog.spark.pipelines.tables.earlier import contents
from tidelog.spark.pipelines.tables.staging import (
    UNCOMMITTED_MS,
    Written,
    arrow_schema,
    attempt_name,
    check_spelling,
    for_spark,
    is_output,
    read_parquet,
    write_parquet,
)
from tidelog.spark.pipelines.tables.two_tables import (
    Mark,
    TwoTables,
    incomplete,
    removed_before_the_commit,
    without_metadata,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGING = "_staging"  # Readers and Delta's own clean-up leave such names alone.
COMMITS_MAX = 20  # Commits that others may make while we try to make one.

_HOUR_MS = 3_600_000
_SUMMARIZED = ("partition", "offset")  # Columns whose range the log has for each file.


def open_delta(spark: "SparkSession", target: str, options: Mapping[str, str]) -> TwoTables:
    chosen = dict(options)
    if chosen.pop("partition-by", "day") != "day":
        raise TableError(
            "A Delta table keeps its partitions, and an archive's are days: use --partition-by day."
        )
    if (place := _for_delta(target)).startswith("/") and "%" in place:
        raise TableError(
            f"A Delta archive cannot be in {target}, because deltalake takes % in a path for part of an "
            "escape: choose another directory."
        )
    records, undecodable = (
        DeltaCommits(spark, f"{target.rstrip('/')}/{name}", chosen) for name in ("records", "undecodable")
    )
    earlier = partial(_earlier_position, target, records, undecodable)
    return TwoTables(target, records, undecodable, earlier, has_topic_directories=True)


def _earlier_position(target: str, records: "DeltaCommits", undecodable: "DeltaCommits") -> Position | None:
    """Of an archive by a stream, whose micro-batches were counted by Delta's transaction actions: first the
    one of the undecodable records, then the one of the records.
    """
    tables = {one: table for one in (records, undecodable) if (table := one.load())}
    if not any(one.totals()[0] for one in tables) or any(one.mark().attempt for one in tables):
        return None
    batches = [
        tables[one].transaction_version(f"tidelog-archive-{target}/checkpoint-{one.path}") for one in tables
    ]
    if batches[0] is None or len({*batches}) > 1:
        raise TableError(
            f"{target} was made by an earlier version, and its last batch is not complete, or it had another "
            "name then: run the earlier version once more, or use the same --to."
        )
    return Position(contents({one.path: one.read() for one in tables})[0])


class DeltaCommits:
    """One table; implements :class:`tidelog.spark.pipelines.tables.two_tables.Commits`."""

    def __init__(self, spark: "SparkSession", path: str, storage: Mapping[str, str]) -> None:
        self.path = path
        self._spark = spark
        self._storage = dict(storage)  # deltalake's storage_options
        self._known: tuple[tuple[str, int], Mark] | None = None  # See mark_of().

    def load(self) -> Delta | None:
        try:
            return Delta(_for_delta(self.path), storage_options=self._storage)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, ValueError) as failure:
            raise TableError(f"The Delta table {self.path} cannot be read: {_reason(failure)}.") from failure

    def usable(self) -> None:
        self.load()

    def exists(self) -> bool:
        return self.load() is not None

    def mark(self) -> Mark:
        found = self.load()
        return self.mark_of(found) if found else Mark()

    def mark_of(self, table: Delta) -> Mark:
        """Read once for each version: each transaction action is looked for in the whole log, some
        milliseconds for every partition of a topic.
        """
        version = str(table.metadata().id), table.version()
        known = self._known
        if known is None or known[0] != version:
            known = self._known = version, read_mark(table)
        return known[1]

    # -- adding ----------------------------------------------------------------------------

    def write(self, rows: "DataFrame", attempt: int, raw: Raw | None = None) -> list[Written]:
        schema = self.schema_of(rows)
        self._ready_for(schema)
        of_files = pa.schema([one for one in schema if one.name not in PARTITION_COLUMNS])
        direct = direct_write(self._spark, raw, self._staged(attempt), of_files)
        if direct is None or direct.run() is None:
            return self.write_rows(rows, attempt)
        return self._take_staged(attempt)

    def write_rows(self, rows: "DataFrame", attempt: int) -> list[Written]:
        self.write_files(rows, self._staged(attempt))
        return self._take_staged(attempt)

    def _staged(self, attempt: int) -> str:
        return f"{_for_spark(self.path)}/{STAGING}/{attempt_name(attempt)}"

    def _take_staged(self, attempt: int) -> list[Written]:
        name = attempt_name(attempt)
        files, root = self.files(), f"{STAGING}/{name}"
        for number, source in enumerate(_parquet(files, root)):
            directory = source.path.removeprefix(f"{root}/").rpartition("/")[0]
            if not is_output(f"{directory}/{name}.parquet"):
                continue
            files.move(source.path, f"{directory}/{name}-{number:05}.parquet")
        self.remove_staged(name)
        return self.written(attempt)

    def remove_staged(self, name: str) -> None:
        """With the checksums that Hadoop writes beside files, and, on a disk, the directories."""
        self.files().delete_dir(f"{STAGING}/{name}")
        if (home := self.local_home) is not None:
            shutil.rmtree(home / STAGING / name, ignore_errors=True)

    @property
    def local_home(self) -> Path | None:
        """The table's directory, if it is on a disk."""
        place = _for_delta(self.path)
        return Path(place) if place.startswith("/") else None

    def schema_of(self, rows: "DataFrame") -> pa.Schema:
        return arrow_schema(rows)

    def write_files(self, rows: "DataFrame", directory: str) -> None:
        write_parquet(rows, directory, PARTITION_COLUMNS)

    def written(self, attempt: int) -> list[Written]:
        files, name = self.files(), f"/{attempt_name(attempt)}-"
        found = [one for one in _parquet(files, "") if name in one.path]
        return [
            Written(one.path, pq.read_metadata(one.path, filesystem=files).num_rows, one.size)
            for one in found
        ]

    def discard(self, attempt: int) -> None:
        files, name = self.files(), attempt_name(attempt)
        self.remove_staged(name)
        for one in _parquet(files, ""):
            if f"/{name}-" in one.path:
                files.delete_file(one.path)

    def commit(self, files: list[Written], mark: Mark, *, expected: Mark) -> None:
        actions: list[AddAction | RemoveAction] = [self.addition(one) for one in files]

        def change(table: Delta) -> None:
            found = self.mark_of(table)
            if found != expected:
                raise PositionMoved(f"{self.path} has another position: another run added records.")
            # Two commits with the attempt conflict, so this one cannot be added on top of another run's.
            properties = CommitProperties(
                custom_metadata={"userMetadata": mark.position.to_json()},
                app_transactions=[Transaction(name, value) for name, value in said(mark, found)],
            )
            table.create_write_transaction(
                actions, "append", table.schema(), list(PARTITION_COLUMNS), commit_properties=properties
            )

        # A commit of its own: the next one must be on top of the version whose mark was read.
        self.change(partial(list_topics, mark.position))
        self.change(change)

    def change(self, change: Callable[[Delta], None]) -> None:
        for _ in range(COMMITS_MAX):
            try:
                change(self._existing())
            except CommitFailedError:
                continue
            except DeltaError as failure:
                raise TableError(f"{self.path} cannot be changed: {_reason(failure)}.") from failure
            return
        raise TableError(f"{self.path} changes too often to commit to it: run this again later.")

    def addition(self, file: Written, *, data_change: bool = True) -> AddAction:
        try:
            metadata = pq.read_metadata(file.path, filesystem=self.files())
        except FileNotFoundError as gone:
            raise removed_before_the_commit(self.path) from gone
        return AddAction(
            path=file.path,
            size=file.bytes,
            partition_values=partition_values(file.path),
            modification_time=time.time_ns() // 1_000_000,
            data_change=data_change,
            stats=json.dumps({"numRecords": file.rows, **_ranges(metadata)}),
        )

    def _ready_for(self, schema: pa.Schema) -> None:
        """The table has all columns that new files need."""
        found = self.load()
        if found is not None and self.totals()[0]:
            check_values([one.name for one in found.schema().fields], schema.names, self.path)
        if found is None:
            if self._has_files() and self.load() is None:  # still: not made by another run
                raise without_metadata(self.path, "_delta_log")
            try:
                Delta.create(
                    _for_delta(self.path),
                    schema,
                    mode="ignore",
                    partition_by=list(PARTITION_COLUMNS),
                    storage_options=self._storage,
                )
            except DeltaError as failure:
                if self.load() is None:  # not created by another run at the same time either
                    reason = _reason(failure)
                    raise TableError(f"The table {self.path} cannot be created: {reason}.") from failure
        self.change(lambda table: self._evolve(table, schema))

    def _evolve(self, table: Delta, schema: pa.Schema) -> None:
        known = pa.schema(table.schema().to_arrow())
        check_spelling(known, schema, self.path)
        if lacks_fields(known, schema, "", self.path):
            write_deltalake(table, schema.empty_table(), mode="append", schema_mode="merge")

    def _existing(self) -> Delta:
        found = self.load()
        if found is None:
            raise TableError(
                f"There is no Delta table {self.path}: name an existing archive, or run the archive first."
            )
        return found

    def _has_files(self) -> bool:
        try:
            return bool(_parquet(self.files(), ""))
        except TableNotFoundError:  # No directory either.
            return False

    def files(self) -> pafs.FileSystem:
        """Rooted at the table."""
        return pafs.PyFileSystem(DeltaStorageHandler(_for_delta(self.path), self._storage))

    # -- the rest --------------------------------------------------------------------------

    def compact(self, *, target_bytes: int, say: Say, files_min: int = 2) -> Compacted:
        from tidelog.spark.pipelines.tables.delta_upkeep import compact

        return compact(self, target_bytes, say, files_min)

    def expire(self, *, older_than_ms: int, say: Say) -> Compacted:
        from tidelog.spark.pipelines.tables.delta_upkeep import remove_abandoned

        table = self.load()
        if table is None:
            return Compacted()
        say("removing files that only old versions refer to")
        removed = self._vacuum(table, older_than_ms, full=False)
        say("removing files of killed runs")
        removed += self._vacuum(self._existing(), max(older_than_ms, UNCOMMITTED_MS), full=True)
        removed += remove_abandoned(self, max(older_than_ms, UNCOMMITTED_MS))
        table = self._existing()
        table.create_checkpoint()
        table.cleanup_metadata()
        return Compacted(removed_files=len(removed), removed_bytes=sum(removed))

    def _vacuum(self, table: Delta, older_than_ms: int, *, full: bool) -> list[int]:
        """The sizes of what was removed. ``full``: also files that were never part of the table."""
        chosen: dict[str, Any] = {
            "retention_hours": math.ceil(older_than_ms / _HOUR_MS),
            "enforce_retention_duration": False,
            "full": full,
        }
        files = self.files()
        infos = [files.get_file_info(name) for name in table.vacuum(dry_run=True, **chosen)]
        table.vacuum(dry_run=False, **chosen)
        return [one.size for one in infos if one.type == pafs.FileType.File]

    def read(self, attempt: int = 0, *, left: bool = False) -> "DataFrame":
        table = self._existing()
        lacks = attempt and self.mark_of(table).attempt != attempt
        if self.needs_jar(table):
            if lacks:
                raise incomplete(self.path)
            return self._read_with_jar()
        more = [one.path for one in self.written(attempt)] if lacks else []
        paths = pa.table(table.get_add_actions())["path"].to_pylist()
        if left:
            infos = self.files().get_file_info(paths)
            paths = [one.path for one in infos if one.type == pafs.FileType.File]
        return self.read_files(table, paths + more)

    def read_files(self, table: Delta, paths: list[str], *, parts: int | None = None) -> "DataFrame":
        """``parts``: the number of Spark's tasks."""
        root = _for_spark(self.path)
        schema = pa.schema(table.schema().to_arrow())
        rows = read_parquet(self._spark, schema, [f"{root}/{path}" for path in paths], basePath=root)
        return rows if parts is None else rows.coalesce(parts)

    def needs_jar(self, table: Delta) -> bool:
        """Whether another program added features with which files alone do not tell the rows."""
        features = set(table.protocol().reader_features or [])
        has_features = bool(features & {"deletionVectors", "columnMapping"})
        return has_features or table.protocol().min_reader_version == 2

    def _read_with_jar(self) -> "DataFrame":
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return self._spark.read.format("delta").load(_for_spark(self.path))
        except (PySparkException, Py4JError) as failure:
            raise TableError(
                f"{self.path} has features that another program added: reading it needs a Spark session with "
                "Delta's jar."
            ) from failure

    def totals(self) -> tuple[int, int, int]:
        found = self.load()
        if found is None:
            return 0, 0, 0
        files = pa.table(found.get_add_actions(flatten=True))
        rows, size = (sum(files[name].to_pylist()) for name in ("num_records", "size_bytes"))
        return rows, files.num_rows, size


def _parquet(files: pafs.FileSystem, root: str) -> list[pafs.FileInfo]:
    found = files.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
    return sorted((one for one in found if one.path.endswith(".parquet")), key=lambda one: one.path)


def partition_values(path: str) -> dict[str, str | None]:
    values = dict(part.split("=", 1) for part in path.split("/")[:-1])
    return {name: unquote(values[name]) for name in PARTITION_COLUMNS}


def _ranges(metadata: pq.FileMetaData) -> dict[str, dict[str, int]]:
    """Least and greatest values, by which readers skip files."""
    least: dict[str, int] = {}
    greatest: dict[str, int] = {}
    names = {metadata.schema.column(number).path: number for number in range(metadata.num_columns)}
    for name in _SUMMARIZED:
        found = [
            metadata.row_group(group).column(names[name]).statistics
            for group in range(metadata.num_row_groups)
        ]
        if all(one is not None and one.has_min_max for one in found) and found:
            least[name] = min(one.min for one in found)
            greatest[name] = max(one.max for one in found)
    return {"minValues": least, "maxValues": greatest}


def _for_delta(path: str) -> str:
    """deltalake takes a local path as it is, and makes no directories for a URI."""
    place = urlparse(path)
    if place.scheme == "file":
        path = unquote(place.path)
    return path if ":/" in path else str(Path(path).absolute())


def _for_spark(path: str) -> str:
    """The same place, whatever the default file system of Hadoop is."""
    place = _for_delta(path)
    return f"file://{place}" if place.startswith("/") else for_spark(place)


def _reason(failure: Exception) -> str:
    return (str(failure).strip() or type(failure).__name__).splitlines()[0].rstrip(".")
