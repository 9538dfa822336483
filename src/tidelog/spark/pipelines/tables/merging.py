"""Which small files are merged.

Owns the choice. Merging whatever is small after every run would write the same bytes again and again: a run
every five minutes would rewrite the file of the day 288 times. A file takes part only if the smaller ones of
its directory weigh at least half as much together, and there are enough of them to be worth a job of Spark.
So each byte is rewritten a few times however often runs are. Days that are over are merged completely.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from tidelog.spark.pipelines.tables.filesystem import FileInfo

_DATE = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)(?:/|$)")


class SmallFiles(NamedTuple):
    """Files of one directory that become one, or a few."""

    directory: str
    files: list[FileInfo]

    @property
    def size(self) -> int:
        return sum(one.size for one in self.files)


def mergeable(
    files: Iterable[FileInfo], target_bytes: int, files_min: int = 2, today: str | None = None
) -> list[SmallFiles]:
    """Files smaller than half of ``target_bytes``, of a day that is not over at least ``files_min``;
    ``today`` is a date in UTC.
    """
    today = today or datetime.now(UTC).date().isoformat()
    by_directory: dict[str, list[FileInfo]] = {}
    for one in files:
        if one.size < target_bytes // 2 and not one.name.startswith("_"):
            by_directory.setdefault(one.name.rpartition("/")[0], []).append(one)
    groups = []
    for directory, found in sorted(by_directory.items()):
        is_over = _is_over(directory, today)
        chosen = _chosen(found, is_over)
        if len(chosen) >= (2 if is_over else max(files_min, 2)):
            groups.append(SmallFiles(directory, chosen))
    return groups


def _is_over(directory: str, today: str) -> bool:
    found = _DATE.search(directory)
    return found is not None and found[1] < today


def _chosen(found: list[FileInfo], all_of_them: bool) -> list[FileInfo]:
    ascending = sorted(found, key=lambda one: (one.size, one.name))
    if all_of_them:
        return ascending
    chosen, total, count = 0, 0, 0
    for one in ascending:
        if count and one.size <= 2 * total:
            chosen = count + 1
        count, total = count + 1, total + one.size
    return ascending[:chosen]
