"""Compaction of a Delta table: small files of a partition are merged in Spark and replaced in one commit.

deltalake has a compaction of its own. It is not used: two at the same time both commit, and then every record
of the merged files is there twice. Here, a commit is made only on top of the version in which all merged
files were seen.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as pafs
from deltalake import CommitProperties
from deltalake import DeltaTable as Delta
from deltalake.transaction import AddAction, RemoveAction

from tidelog.spark.pipelines.tables import PARTITION_COLUMNS, Compacted, Say, TableError
from tidelog.spark.pipelines.tables.filesystem import FileInfo
from tidelog.spark.pipelines.tables.merging import mergeable
from tidelog.spark.pipelines.tables.staging import different_rows, new_attempt

if TYPE_CHECKING:
    from tidelog.spark.pipelines.tables.delta import DeltaCommits


class CountedFiles(NamedTuple):
    """Small files of one partition."""

    files: list[FileInfo]
    rows: int

    @property
    def size(self) -> int:
        return sum(one.size for one in self.files)


def compact(one: "DeltaCommits", target_bytes: int, say: Say, files_min: int) -> Compacted:
    table = one.load()
    if table is None or one.needs_jar(table):
        # Files do not tell by themselves which of their rows another program has deleted.
        return Compacted()
    groups = list(small_files(table, target_bytes, files_min))
    done = Compacted()
    for number, group in enumerate(groups):
        say(f"compacting {number + 1} of {len(groups)} partitions")
        made = _merge(one, group, target_bytes)
        done = Compacted(
            done.removed_files + made.removed_files,
            done.added_files + made.added_files,
            done.removed_bytes + made.removed_bytes,
            done.added_bytes + made.added_bytes,
        )
    return done


def small_files(table: Delta, target_bytes: int, files_min: int = 2) -> Iterator[CountedFiles]:
    found = _files(table)
    infos = [FileInfo(path, row["size_bytes"]) for path, row in found.items()]
    for group in mergeable(infos, target_bytes, files_min):
        yield CountedFiles(group.files, sum(found[file.name]["num_records"] for file in group.files))


def _files(table: Delta) -> dict[str, dict[str, Any]]:
    rows = pa.table(table.get_add_actions()).select(["path", "size_bytes", "num_records"]).to_pylist()
    return {row["path"]: row for row in rows}


def _merge(one: "DeltaCommits", group: CountedFiles, target_bytes: int) -> Compacted:
    table = one.load()
    old = [file.name for file in group.files]
    if table is None or not {*old} <= _files(table).keys():
        return Compacted()  # another compaction was faster
    rows = one.read_files(table, old, parts=max(round(group.size / target_bytes), 1))
    written = one.write_rows(rows, new_attempt())
    if sum(file.rows for file in written) != group.rows:
        raise TableError(different_rows(one.path))

    def change(table: Delta) -> None:
        if not {*old} <= _files(table).keys():
            raise _Overtaken
        now_ms = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = [_removal(file, now_ms) for file in group.files]
        actions += [one.addition(file, data_change=False) for file in written]
        table.create_write_transaction(
            actions,
            "append",
            table.schema(),
            list(PARTITION_COLUMNS),
            # deltalake would repeat the commit on top of a version that does not have the files any more.
            commit_properties=CommitProperties(max_commit_retries=0),
        )

    try:
        one.change(change)
    except _Overtaken:
        return Compacted()  # expiry removes our files
    return Compacted(len(old), len(written), group.size, sum(file.bytes for file in written))


def remove_abandoned(one: "DeltaCommits", older_than_ms: int) -> list[int]:
    """What killed runs staged, which Delta's own clean-up leaves alone. Returns the sizes of the files."""
    from tidelog.spark.pipelines.tables.delta import STAGING

    cutoff_s = time.time() - older_than_ms / 1000
    attempts: dict[str, list[pafs.FileInfo]] = {}
    for info in one.files().get_file_info(pafs.FileSelector(STAGING, recursive=True, allow_not_found=True)):
        found = attempts.setdefault(info.path.split("/")[1], [])
        if info.type == pafs.FileType.File:
            found.append(info)
    removed = []
    for name, files in attempts.items():
        changed_s = [file.mtime.timestamp() for file in files]
        if one.local_home is not None:
            with suppress(FileNotFoundError):  # The run has ended meanwhile.
                changed_s.append((one.local_home / STAGING / name).stat().st_mtime)
        if changed_s and max(changed_s) < cutoff_s:
            one.remove_staged(name)
            removed += [file.size for file in files]
    return removed


def _removal(file: FileInfo, now_ms: int) -> RemoveAction:
    from tidelog.spark.pipelines.tables.delta import partition_values

    return RemoveAction(file.name, False, now_ms, file.size, partition_values(file.name))


class _Overtaken(Exception):
    """Another compaction replaced these files."""
