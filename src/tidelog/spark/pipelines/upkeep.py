"""Compaction and expiry of an archive of any format, as pipelines.

Small files make queries slow, and snapshots that no reader needs keep old files. An Iceberg or Delta archive
may run at the same time; one of plain Parquet is locked meanwhile.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.running import Progress, Tell, discard
from tidelog.spark.pipelines.tables import Compacted, Table, Totals
from tidelog.spark.pipelines.tables.filesystem import files_at
from tidelog.spark.pipelines.tables.opening import CATALOG, open_existing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNITS_MS = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
_AGE = re.compile(r"\s*(\d+)\s*([a-z]+?)s?\s*")


@dataclass(frozen=True, slots=True)
class Compaction:
    target: str
    target_bytes: int = 128 << 20
    table_options: Mapping[str, str] = field(default_factory=dict)  # of the format, such as its catalog


@dataclass(frozen=True, slots=True)
class Expiry:
    target: str
    older_than: str  # such as "7 days"
    table_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """What was removed and added, and what the archive contains afterwards."""

    target: str
    removed_files: int
    added_files: int
    removed_bytes: int
    added_bytes: int
    records: int
    undecodable: int
    files: int
    bytes: int


def compact(spark: "SparkSession", job: Compaction, *, tell: Tell = discard) -> UpkeepReport:
    """Merge small files; the records stay the same."""
    if job.target_bytes <= 0:
        raise OptionError("The size of compacted files must be more than 0.")
    table = _existing(spark, job.target, job.table_options)
    with table.exclusive():
        return _report(
            table, table.compact(target_bytes=job.target_bytes, say=lambda text: tell(_said(text)))
        )


def expire(spark: "SparkSession", job: Expiry, *, tell: Tell = discard) -> UpkeepReport:
    """Remove files that only old snapshots, or killed runs, refer to; the records stay the same."""
    age_ms = parse_age_ms(job.older_than)
    table = _existing(spark, job.target, job.table_options)
    with table.exclusive():
        return _report(table, table.expire(older_than_ms=age_ms, say=lambda text: tell(_said(text))))


def _existing(spark: "SparkSession", target: str, options: Mapping[str, str]) -> Table:
    """:class:`OptionError` if there is none: a misspelt path would be kept up for years without a word. A
    directory of records without a position is of an earlier version, or damaged, which the table tells.
    """
    table = open_existing(spark, target, options)
    is_empty = not table.position().spans and table.totals() == Totals()
    if is_empty and (CATALOG in options or not files_at(spark, target).exists("records")):
        raise OptionError(f"There is no archive in {target}: name an existing one.")
    return table


def parse_age_ms(text: str) -> int:
    """A number and a unit, such as "7 days"."""
    found = _AGE.fullmatch(text.lower())
    if found is None or found[2] not in _UNITS_MS:
        units = ", ".join(f"{one}s" for one in _UNITS_MS)
        raise OptionError(f"The age {text!r} is not a number and one of the units {units}.")
    return int(found[1]) * _UNITS_MS[found[2]]


def _said(text: str) -> Progress:
    return Progress(0, 0.0, 0, text, counts=False)


def _report(table: Table, done: Compacted) -> UpkeepReport:
    totals: Totals = table.totals()
    return UpkeepReport(
        table.target,
        done.removed_files,
        done.added_files,
        done.removed_bytes,
        done.added_bytes,
        totals.records,
        totals.undecodable,
        totals.files,
        totals.bytes,
    )
