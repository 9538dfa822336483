"""The rows of an archive as other programs see them: PyArrow, PyIceberg and deltalake, without Tidelog."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from bench.drill.ledger import RECORDS, UNDECODABLE, Found, Place

FORMATS = ("parquet", "iceberg", "delta")
# What changes in the target when a run writes and commits.
SIGNS = {
    "parquet": ("_staging", "_log"),
    "iceberg": ("records/data", "records/metadata", "undecodable/metadata"),
    "delta": ("records/_staging", "records/_delta_log", "undecodable/_delta_log"),
}


def read(target: Path, table_format: str) -> Iterator[Found]:
    for part in (RECORDS, UNDECODABLE):
        if (target / part).exists():
            for row in _READERS[table_format](target / part):
                yield _found(part, row)


def _found(part: str, row: dict[str, Any]) -> Found:
    decoded = row.get("decoded")
    fields = None if decoded is None else {key: value for key, value in decoded.items() if value is not None}
    place = Place(row["topic"], row["topicId"] or "", row["partition"], row["offset"])
    return Found(part, row["key"].decode(), row["value"], place, fields)


def _read_parquet(directory: Path) -> Iterator[dict[str, Any]]:
    """File by file: each has the fields that were known when it was written."""
    for path in sorted(directory.rglob("*.parquet")):
        if path.name.startswith((".", "_")):
            continue
        names = dict(part.split("=", 1) for part in path.relative_to(directory).parts[:-1])
        for row in pq.ParquetFile(path).read().to_pylist():
            yield row | {"topic": unquote(names["topic"])}


def _read_iceberg(directory: Path) -> Iterator[dict[str, Any]]:
    from pyiceberg.table import StaticTable

    metadata = directory / "metadata"
    version = (metadata / "version-hint.text").read_text().strip()
    table = StaticTable.from_metadata(str(metadata / f"v{version}.metadata.json"))
    yield from table.scan().to_arrow().to_pylist()


def _read_delta(directory: Path) -> Iterator[dict[str, Any]]:
    from deltalake import DeltaTable, QueryBuilder

    rows = QueryBuilder().register("archive", DeltaTable(str(directory))).execute("select * from archive")
    yield from pa.table(rows.read_all()).to_pylist()


_READERS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    "parquet": _read_parquet,
    "iceberg": _read_iceberg,
    "delta": _read_delta,
}
