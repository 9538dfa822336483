"""Compaction and expiry of an Iceberg table.

*Compaction* merges small files of a partition into files of the wanted size, in Spark, and replaces them in
one commit for several partitions. Files from before a change of the partitions are written in the present
ones. Readers of an older snapshot still find the old files.

*Expiry* removes old snapshots, and then the files that no snapshot refers to: those of expired snapshots, and
those of attempts that were never committed. Of the latter, a file that is younger than :data:`UNCOMMITTED_MS`
stays, because a running step may be about to commit it.
"""

import datetime
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.fs as pafs
from pyiceberg.exceptions import ValidationException
from pyiceberg.io.pyarrow import PyArrowFileIO, parquet_file_to_data_file
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as IcebergTable

from tidelog.spark.pipelines.tables import Compacted, Say, TableError
from tidelog.spark.pipelines.tables.filesystem import FileInfo
from tidelog.spark.pipelines.tables.iceberg import arrow_files, directory_of, unit_of
from tidelog.spark.pipelines.tables.merging import mergeable
from tidelog.spark.pipelines.tables.staging import UNCOMMITTED_MS, Written, different_rows, new_attempt

if TYPE_CHECKING:
    from tidelog.spark.pipelines.tables.iceberg import IcebergCommits

GROUPS_PER_COMMIT = 16
GROUP_FILES_MAX = 64  # Times the wanted size: what one job of Spark merges.


class SmallDataFiles(NamedTuple):
    """Small files of one partition, or of the old partitions of one topic, that are merged."""

    files: list[DataFile]
    bytes: int


def compact(one: "IcebergCommits", target_bytes: int, say: Say, files_min: int) -> Compacted:
    table = one.load()
    groups = list(small_files(table, target_bytes, files_min)) if table else []
    done = Compacted()
    for start in range(0, len(groups), GROUPS_PER_COMMIT):
        chosen = groups[start : start + GROUPS_PER_COMMIT]
        say(f"compacting {start + len(chosen)} of {len(groups)} partitions")
        done = _plus(done, _merge(one, chosen, target_bytes))
    return done


def small_files(table: IcebergTable, target_bytes: int, files_min: int = 2) -> Iterator[SmallDataFiles]:
    """By the rule of plain Parquet, which knows directories."""
    found: dict[str, DataFile] = {}
    for number, task in enumerate(table.scan().plan_files()):
        if not task.delete_files:
            found[f"{_directory(table, task.file)}/{number}"] = task.file
    infos = [FileInfo(name, file.file_size_in_bytes) for name, file in found.items()]
    for group in mergeable(infos, target_bytes, files_min):
        yield from _bounded([found[one.name] for one in group.files], GROUP_FILES_MAX * target_bytes)


def _directory(table: IcebergTable, file: DataFile) -> str:
    """Topic and last day of the partition. Files of old partitions are all in one that is over."""
    if file.spec_id != table.metadata.default_spec_id:
        return f"topic={file.partition[0]}/date={datetime.date.min}"
    return f"topic={file.partition[0]}/date={last_day(unit_of(table.metadata), file.partition[1])}"


def last_day(unit: str, number: int) -> datetime.date:
    """Of the given hour, day, month or year, counted from 1970; the last one that a calendar has, if a
    producer's clock was beyond it.
    """
    try:
        return _last_day(unit, number)
    except (OverflowError, ValueError):
        return datetime.date.max if number > 0 else datetime.date.min


def _last_day(unit: str, number: int) -> datetime.date:
    start = datetime.date(1970, 1, 1)
    if unit in ("hour", "day"):
        return start + datetime.timedelta(days=number if unit == "day" else number // 24)
    months = number + 1 if unit == "month" else 12 * (number + 1)
    return datetime.date(1970 + months // 12, months % 12 + 1, 1) - datetime.timedelta(days=1)


def _bounded(files: list[DataFile], bytes_max: int) -> Iterator[SmallDataFiles]:
    taken: list[DataFile] = []
    size = 0
    for file in sorted(files, key=lambda one: one.file_path):
        if size + file.file_size_in_bytes > bytes_max and len(taken) > 1:
            yield SmallDataFiles(taken, size)
            taken, size = [], 0
        taken.append(file)
        size += file.file_size_in_bytes
    if len(taken) > 1:
        yield SmallDataFiles(taken, size)


def _merge(one: "IcebergCommits", groups: list[SmallDataFiles], target_bytes: int) -> Compacted:
    table = one.load()
    if table is None:
        return Compacted()
    written: list[Written] = []
    for group in groups:
        attempt = new_attempt()
        parts = max(round(group.bytes / target_bytes), 1)
        rows = one.read_files(table, [file.file_path for file in group.files], parts=parts)
        one.write_files(rows, unit_of(table.metadata), directory_of(table, attempt))
        made = one.written(attempt)
        if sum(file.rows for file in made) != sum(file.record_count for file in group.files):
            raise TableError(different_rows(one.path))
        written += made
    old = [file for group in groups for file in group.files]

    def change(table: IcebergTable) -> None:
        with table.transaction() as transaction, transaction.update_snapshot().overwrite() as snapshot:
            for file in old:
                snapshot.delete_data_file(file)
            for made in written:
                snapshot.append_data_file(
                    parquet_file_to_data_file(table.io, transaction.table_metadata, made.path)
                )

    try:
        one.change(change)
    except ValidationException:
        return Compacted()  # Another compaction replaced these files; expiry removes ours.
    return Compacted(
        len(old), len(written), sum(group.bytes for group in groups), sum(file.bytes for file in written)
    )


def expire(one: "IcebergCommits", older_than_ms: int, say: Say) -> Compacted:
    now_ms = time.time_ns() // 1_000_000
    limit = datetime.datetime.fromtimestamp((now_ms - older_than_ms) / 1000, datetime.UTC)

    def change(table: IcebergTable) -> None:
        table.maintenance.expire_snapshots().older_than(limit).commit()

    table = one.load()
    if table is None:
        return Compacted()
    say("removing old snapshots")
    before = _used(table)
    one.change(change)
    table = one.load() or table
    say("looking for files that no snapshot refers to")
    used = _used(table)
    cutoff_ns = (now_ms - max(older_than_ms, UNCOMMITTED_MS)) * 1_000_000
    removed, size = 0, 0
    empty = _old_directories(table, cutoff_ns)
    for directory in ("data", "metadata"):
        filesystem, root = arrow_files(table, f"{table.location().rstrip('/')}/{directory}")
        found = filesystem.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
        for file in found:
            is_old = file.path in before or (file.mtime_ns or 0) < cutoff_ns
            if file.type == pafs.FileType.File and file.path not in used and is_old:
                filesystem.delete_file(file.path)
                removed, size = removed + 1, size + file.size
                if removed % 1000 == 0:
                    say(f"removed {removed} files")
    for path in empty:
        with suppress(OSError):  # It is not empty, or another expiry was faster.
            path.rmdir()
    return Compacted(removed_files=removed, removed_bytes=size)


def _old_directories(table: IcebergTable, cutoff_ns: int) -> list[Path]:
    """On a disk, deepest first: each step makes some, and an object store has none. Before files are removed,
    because a directory changes with them.
    """
    filesystem, root = arrow_files(table, f"{table.location().rstrip('/')}/data")
    if filesystem.type_name != "local":
        return []
    found = (path for path in Path(root).rglob("*") if path.is_dir())
    old = [path for path in found if path.stat().st_mtime_ns < cutoff_ns]
    return sorted(old, key=lambda path: len(path.parts), reverse=True)


def _used(table: IcebergTable) -> set[str]:
    """Every file that the table's metadata refers to."""
    metadata = table.metadata
    locations = {table.metadata_location, *(one.metadata_file for one in metadata.metadata_log)}
    locations |= {f"{metadata.location.rstrip('/')}/metadata/version-hint.text"}
    locations |= {one.statistics_path for one in metadata.statistics}
    locations |= {one.statistics_path for one in metadata.partition_statistics}
    manifests: set[str] = set()
    for snapshot in metadata.snapshots:
        locations.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in manifests:
                manifests.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                locations |= {entry.data_file.file_path for entry in entries}
    return {PyArrowFileIO.parse_location(one)[2] for one in locations | manifests}


def _plus(one: Compacted, other: Compacted) -> Compacted:
    return Compacted(
        one.removed_files + other.removed_files,
        one.added_files + other.added_files,
        one.removed_bytes + other.removed_bytes,
        one.added_bytes + other.added_bytes,
    )
