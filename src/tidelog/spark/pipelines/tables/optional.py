"""The table formats that are packages of their own: opened when asked for, or what to install.

Recognising an archive needs no package.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.tables.filesystem import files_at
from tidelog.spark.pipelines.tables.parquet import BREAK_LOCK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.pipelines.tables import Table


def open_iceberg(spark: "SparkSession", target: str, options: Mapping[str, str]) -> "Table":
    with _installed("iceberg", "Iceberg"):
        from tidelog.spark.pipelines.tables import iceberg
    return iceberg.open_iceberg(spark, target, _own(options))


def open_delta(spark: "SparkSession", target: str, options: Mapping[str, str]) -> "Table":
    with _installed("delta", "Delta"):
        from tidelog.spark.pipelines.tables import delta
    return delta.open_delta(spark, target, _own(options))


def is_iceberg(spark: "SparkSession", target: str) -> bool:
    """By any of its versions: the hint at the newest one may be missing."""
    found = files_at(spark, target).files("records/metadata")
    return any(each.name.endswith(".metadata.json") for each in found)


def is_delta(spark: "SparkSession", target: str) -> bool:
    return files_at(spark, target).exists("records/_delta_log")


def _own(options: Mapping[str, str]) -> dict[str, str]:
    """There is no lock: of two commits one wins."""
    return {key: value for key, value in options.items() if key != BREAK_LOCK}


@contextmanager
def _installed(extra: str, name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        raise OptionError(
            f"{name} tables need the package {missing.name}, which is not installed: "
            f"pip install 'tidelog[spark,{extra}]'."
        ) from None
