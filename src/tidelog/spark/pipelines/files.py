"""Directories of Parquet files to which a micro-batch is added once, and whose small files are merged.

Owns the layout and the two promises. Works on whatever Arrow can reach: local disks, HDFS, S3, GCS.

========================= =======================================================================
``PATH/topic=…/date=…/``  the files; every reader of Parquet understands it
``PATH/_batches/N.json``  micro-batch N is complete: its files and how many rows they have
``PATH/_staging/``        what is being written; no reader looks into it
``PATH/_merges/N.json``   a merge that has begun: which file replaces which
========================= =======================================================================

*Once*: Spark writes a micro-batch to a directory aside. When that is complete (Spark leaves ``_SUCCESS``),
its files are moved to their places under names that come from the batch, and then ``_batches/N.json`` is
written. A batch that is run again finds the note and does nothing, or finds the complete directory and goes
on moving, or begins anew.

*Merged*: the new file is written aside, the plan is noted, the new file is moved into place and the old ones
are removed; a plan that is found is carried out first of all. Between the last two steps a reader may see
records twice.
"""

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The number of files a task may have open before Spark sorts its rows by directory first, which costs more
# than writing them: a task has one topic, and its rows are of a few days.
_OPEN_FILES = 4
_OPEN_FILES_SETTING = "spark.sql.maxConcurrentOutputFileWriters"

_PART = re.compile(r"part-(\d+)-.*?(?:-?c(\d+))?\.(?:\w+\.)?parquet$")


@dataclass(frozen=True, slots=True)
class Added:
    """What one micro-batch added."""

    batch_id: int
    rows: int
    files: list[str]  # relative to the table


@dataclass(frozen=True, slots=True)
class Merge:
    """Files that become one (or a few), all of one directory."""

    add: dict[str, str]  # from the staging path to the final path, relative to the table
    remove: list[str]


class ParquetFiles:
    """Picklable: only the path is kept."""

    def __init__(self, path: str) -> None:
        self.path = path.rstrip("/")

    def __getstate__(self) -> dict[str, str]:
        return {"path": self.path}

    @cached_property
    def _where(self) -> tuple[Any, str]:
        if "://" in self.path:
            filesystem, root = pafs.FileSystem.from_uri(self.path)
            return filesystem, root
        return pafs.LocalFileSystem(), self.path

    def prepare(self, spark: "SparkSession") -> None:
        """Finish what an earlier run had begun."""
        self.finish_merges()

    # -- adding ----------------------------------------------------------------------------

    def add(self, rows: "DataFrame", batch_id: int, partition_by: Iterable[str]) -> Added:
        """Add the rows of a micro-batch, unless they are there."""
        note = f"_batches/{batch_id}.json"
        if self._exists(note):
            return Added(**self._read_json(note))
        staging = f"_staging/{batch_id}"
        if not self._exists(f"{staging}/_SUCCESS"):
            _write_unsorted(rows, list(partition_by), f"{self.path}/{staging}")
        moves = {one: _named(one, staging, f"batch-{batch_id:08}") for one in self._parquet(staging)}
        self._move(moves)
        files = sorted(set(moves.values()) | set(self._moved_before(batch_id)))
        added = Added(batch_id, sum(self._row_count(one) for one in files), files)
        self._write_json(note, asdict(added))
        self._delete_directory(staging)
        return added

    def batches(self) -> list[Added]:
        """All that are complete, oldest first."""
        found = [Added(**self._read_json(one)) for one in self._names("_batches") if one.endswith(".json")]
        return sorted(found, key=lambda one: one.batch_id)

    def files(self) -> list[str]:
        """All files that readers see, relative to the table."""
        return sorted(one for one in self._parquet("") if not one.startswith("_"))

    def is_delta(self) -> bool:
        """Whether another program manages this directory."""
        return self._exists("_delta_log")

    def row_total(self, spark: "SparkSession") -> int:
        """From the notes about batches: no file is opened."""
        return sum(one.rows for one in self.batches())

    def file_total(self, spark: "SparkSession") -> int:
        return len(self.files())

    def row_count(self) -> int:
        return sum(self._row_count(one) for one in self.files())

    # -- merging ---------------------------------------------------------------------------

    def merge(self, spark: "SparkSession", *, target_bytes: int) -> int:
        """Merge files smaller than half of ``target_bytes``; returns how many are gone.

        Concatenated without sorting: the rows of each are already in the order of their partition, and a sort
        would cost more than all the rest.
        """
        self.finish_merges()
        removed = 0
        for number, (directory, small, size) in enumerate(list(self._mergeable(target_bytes))):
            staging = f"_staging/merge-{number}"
            count = max(round(size / target_bytes), 1)
            rows = spark.read.option("basePath", self.path).parquet(*(f"{self.path}/{one}" for one in small))
            kept = [name for name in rows.columns if f"{name}=" not in f"/{directory}"]
            rows.select(*kept).coalesce(count).write.mode("overwrite").parquet(f"{self.path}/{staging}")
            name = f"merged-{uuid.uuid4().hex[:12]}"
            add = {one: _named(one, staging, name, directory) for one in self._parquet(staging)}
            plan = f"_merges/{number}.json"
            self._write_json(plan, asdict(Merge(add, small)))
            self._carry_out(plan)
            self._delete_directory(staging)
            removed += len(small) - len(add)
        return removed

    def finish_merges(self) -> None:
        """Finish what an earlier run had begun."""
        for plan in self._names("_merges"):
            if plan.endswith(".json"):
                self._carry_out(plan)

    def _mergeable(self, target_bytes: int) -> Iterator[tuple[str, list[str], int]]:
        by_directory: dict[str, list[tuple[str, int]]] = {}
        for name in self.files():
            size = self._info(name).size
            if size < target_bytes // 2:
                by_directory.setdefault(name.rpartition("/")[0], []).append((name, size))
        for directory, found in by_directory.items():
            if len(found) > 1:
                yield directory, [name for name, _ in found], sum(size for _, size in found)

    def _carry_out(self, plan: str) -> None:
        merge = Merge(**self._read_json(plan))
        self._move(merge.add)
        filesystem, _ = self._where
        for name in merge.remove:
            if self._exists(name):
                filesystem.delete_file(self._full(name))
        filesystem.delete_file(self._full(plan))

    # -- files -----------------------------------------------------------------------------

    def _full(self, name: str) -> str:
        return f"{self._where[1]}/{name}" if name else str(self._where[1])

    def _info(self, name: str) -> Any:
        return self._where[0].get_file_info(self._full(name))

    def _exists(self, name: str) -> bool:
        return bool(self._info(name).type != pafs.FileType.NotFound)

    def _names(self, directory: str, *, recursive: bool = False) -> list[str]:
        filesystem, root = self._where
        selector = pafs.FileSelector(self._full(directory), allow_not_found=True, recursive=recursive)
        found = filesystem.get_file_info(selector)
        start = len(root.rstrip("/")) + 1
        return sorted(one.path[start:] for one in found if one.type == pafs.FileType.File)

    def _parquet(self, directory: str) -> list[str]:
        return [one for one in self._names(directory, recursive=True) if one.endswith(".parquet")]

    def _moved_before(self, batch_id: int) -> list[str]:
        """By a run of the batch that died while it moved files."""
        prefix = f"batch-{batch_id:08}-"
        return [one for one in self.files() if one.rpartition("/")[2].startswith(prefix)]

    def _move(self, moves: dict[str, str]) -> None:
        filesystem, _ = self._where
        for source, target in moves.items():
            if self._exists(source):
                filesystem.create_dir(self._full(target).rpartition("/")[0], recursive=True)
                filesystem.move(self._full(source), self._full(target))

    def _row_count(self, name: str) -> int:
        with self._where[0].open_input_file(self._full(name)) as file:
            return int(pq.ParquetFile(file).metadata.num_rows)

    def _read_json(self, name: str) -> dict[str, Any]:
        with self._where[0].open_input_stream(self._full(name)) as file:
            value: dict[str, Any] = json.loads(file.read())
            return value

    def _write_json(self, name: str, value: dict[str, Any]) -> None:
        """Aside first: an existing file is complete."""
        filesystem, _ = self._where
        filesystem.create_dir(self._full(name).rpartition("/")[0], recursive=True)
        aside = self._full(f"{name}.new")
        with filesystem.open_output_stream(aside) as file:
            file.write(json.dumps(value).encode())
        filesystem.move(aside, self._full(name))

    def _delete_directory(self, name: str) -> None:
        if self._exists(name):
            self._where[0].delete_dir(self._full(name))


def _write_unsorted(rows: "DataFrame", partition_by: list[str], path: str) -> None:
    settings = rows.sparkSession.conf
    # A micro-batch has its query's own session, and a user's choice stays.
    if partition_by and settings.get(_OPEN_FILES_SETTING, "0") == "0":
        settings.set(_OPEN_FILES_SETTING, str(_OPEN_FILES))
    writer = rows.write.mode("overwrite").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "true")
    writer.partitionBy(*partition_by).parquet(path)


def _named(source: str, staging: str, prefix: str, directory: str | None = None) -> str:
    """Where a file of the staging directory belongs: its own subdirectory, or the one given."""
    inner, _, file = source[len(staging) + 1 :].rpartition("/")
    found = _PART.match(file)
    number = f"{found[1]}-{found[2] or 0}" if found else file.removesuffix(".parquet")
    where = inner if directory is None else directory
    return f"{where}/{prefix}-{number}.parquet" if where else f"{prefix}-{number}.parquet"
