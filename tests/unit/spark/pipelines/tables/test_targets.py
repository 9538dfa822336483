"""Where an archive cannot be, and which topics cannot be in it: refused before anything is written."""

from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines.tables import NULL_DIRECTORY, Place, Position, Rows, Span, Step, TableError
from tidelog.spark.pipelines.tables.filesystem import LocalFiles
from tidelog.spark.pipelines.tables.opening import open_existing, open_table
from tidelog.spark.pipelines.tables.parquet import ParquetTable
from tidelog.spark.pipelines.upkeep import Compaction, Expiry, compact, expire
from unit.spark.pipelines.tables.arrow_tables import opener, records

NO_SESSION = cast(Any, None)


@pytest.mark.parametrize("table_format", ["parquet", "iceberg", "delta"])
@pytest.mark.parametrize("name", ["a[bc]", "a{b,c}", "a*", "a?", "a\\b"])
def test_a_path_that_spark_takes_for_a_pattern_is_refused(
    tmp_path: Path, table_format: str, name: str
) -> None:
    """The archive was written, and then not found, or read together with its neighbours."""
    with pytest.raises(OptionError, match="in a path for part of a pattern; choose another directory"):
        open_table(NO_SESSION, f"{tmp_path}/{name}", table_format)
    assert not list(tmp_path.iterdir())


def test_a_namespace_is_no_path() -> None:
    pytest.importorskip("pyiceberg")
    with pytest.raises(TableError, match="catalog"):
        open_existing(NO_SESSION, "raw.orders?", {"catalog": "nosuch"})


def test_a_path_that_deltalake_takes_for_an_escape_is_refused(tmp_path: Path) -> None:
    """The first step was added, and the table could not be read any more."""
    pytest.importorskip("deltalake")
    for target in (f"{tmp_path}/per%20cent", f"file://{tmp_path}/per%2520cent"):
        with pytest.raises(TableError, match="takes % in a path for part of an escape"):
            open_table(NO_SESSION, target, "delta")


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_a_topic_whose_directory_would_mean_null_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: str
) -> None:
    step = Step(0, Position(), Position({Place(NULL_DIRECTORY, "id", 0): Span(0, 2)}))
    rows = Rows(cast(Any, records(0, 1)))
    if table_format == "parquet":
        table: Any = ParquetTable(NO_SESSION, str(tmp_path / "archive"), {})
        table.files = LocalFiles(str(tmp_path / "archive"))
    else:
        pytest.importorskip("deltalake")
        pytest.importorskip("pyiceberg")
        table = opener("delta", tmp_path, monkeypatch)()
    with pytest.raises(TableError, match="means null in the names of directories: archive it to an Iceberg"):
        table.append(rows, step)
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_archive_that_is_not_there_is_not_kept_up(tmp_path: Path) -> None:
    """A scheduled command with a misspelt path ended well every day, and made the directory."""
    for target in (tmp_path / "nosuch", tmp_path):
        for upkeep, job in (
            (compact, Compaction(str(target), 1 << 20)),
            (expire, Expiry(str(target), "7 days")),
        ):
            with pytest.raises(OptionError, match=r"There is no archive in .*: name an existing one"):
                upkeep(NO_SESSION, cast(Any, job))
    assert not list(tmp_path.iterdir())
