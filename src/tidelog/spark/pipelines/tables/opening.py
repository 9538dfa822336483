"""Which module implements the format of an archive.

A format has one entry in :data:`FORMATS`: how to open an archive of it, and how to recognise one that exists.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.tables import Table, optional
from tidelog.spark.pipelines.tables.filesystem import files_at
from tidelog.spark.pipelines.tables.log import LOG
from tidelog.spark.pipelines.tables.parquet import BREAK_LOCK, ParquetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Options = Mapping[str, str]

CATALOG = "catalog"  # The option that names a catalog of Iceberg, in which the target is a namespace.

# Spark reads the paths of files as patterns: it would find other files than were written, or none.
_PATTERN = frozenset("*?[]{}\\")


class Format(NamedTuple):
    open: "Callable[[SparkSession, str, Options], Table]"
    recognise: "Callable[[SparkSession, str], bool]"


def _is_parquet(spark: "SparkSession", target: str) -> bool:
    return files_at(spark, target).exists(LOG)


FORMATS: dict[str, Format] = {
    "parquet": Format(ParquetTable, _is_parquet),
    "iceberg": Format(optional.open_iceberg, optional.is_iceberg),
    "delta": Format(optional.open_delta, optional.is_delta),
}


def open_table(
    spark: "SparkSession", target: str, table_format: str, options: Options | None = None
) -> Table:
    """``options`` are the format's own, such as a catalog."""
    if table_format not in FORMATS:
        raise OptionError(f"The table format is {table_format!r}; allowed: {', '.join(FORMATS)}.")
    unknown = sorted({*(options or {})} - {BREAK_LOCK}) if table_format == "parquet" else []
    if unknown:
        raise OptionError(
            f"A Parquet archive has no option {unknown[0]}: leave it out, or use --table-format iceberg or "
            "--table-format delta."
        )
    if table_format != "parquet" and BREAK_LOCK in (options or {}):
        raise OptionError("Only a Parquet archive has a lock: leave --break-lock out.")
    if not _is_in_catalog(options):
        _check_target(target)
    table = FORMATS[table_format].open(spark, target, options or {})
    found = None if _is_in_catalog(options) else format_of(spark, target)
    if found not in (None, table_format):
        raise OptionError(
            f"{target} is an archive of the format {found}: use --table-format {found}, or another target."
        )
    return table


def _check_target(target: str) -> None:
    if found := sorted(_PATTERN & {*target}):
        raise OptionError(
            f"An archive cannot be in {target}: Spark takes {found[0]} in a path for part of a pattern; "
            "choose another directory, or rename it if it exists."
        )


def open_existing(spark: "SparkSession", target: str, options: Options | None = None) -> Table:
    """An archive of any format; plain Parquet, which needs no metadata, if none claims it."""
    found = "iceberg" if _is_in_catalog(options) else format_of(spark, target)
    return open_table(spark, target, found or "parquet", options)


def format_of(spark: "SparkSession", target: str) -> str | None:
    """None if there is no archive, or one of plain Parquet that an earlier version made."""
    return next((name for name, one in FORMATS.items() if one.recognise(spark, target)), None)


def _is_in_catalog(options: Options | None) -> bool:
    return CATALOG in (options or {})
