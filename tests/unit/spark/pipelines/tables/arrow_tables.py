"""Iceberg and Delta tables whose files Arrow writes in place of Spark: fast, and real for all else."""

import datetime
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable as Delta
from pyiceberg.table import StaticTable

from tidelog.spark.pipelines.tables import Place, Position, Rows, Span, Step
from tidelog.spark.pipelines.tables.delta import DeltaCommits, open_delta
from tidelog.spark.pipelines.tables.iceberg import IcebergCommits, open_iceberg
from tidelog.spark.pipelines.tables.two_tables import TwoTables

TOPIC_ID = "Zm9vYmFyYmF6cXV4MTIzNA"
PLACES = [Place("007", TOPIC_ID, number) for number in range(2)]
DAY = datetime.datetime(2026, 5, 17, tzinfo=datetime.UTC)
DECODED = pa.struct([pa.field("id", pa.int32())])

Open = Callable[..., TwoTables]


class ArrowIceberg(IcebergCommits):
    """Arrow in place of Spark."""

    def schema_of(self, rows: Any) -> pa.Schema:
        return cast(pa.Schema, rows.schema)

    def write_files(self, rows: Any, unit: str, directory: str) -> None:
        length = {"day": 10, "month": 7, "year": 4}[unit]
        when = pc.utf8_slice_codeunits(pc.cast(rows["date"], pa.string()), 0, length)
        split = rows.append_column("by", rows["topic"]).append_column("at", when)
        _write(split, directory.removeprefix("file://"), ["by", "at"])

    def read_files(self, table: Any, paths: list[str], *, parts: int | None = None) -> Any:
        return ds.dataset([one.removeprefix("file://") for one in paths]).to_table()


class ArrowDelta(DeltaCommits):
    def schema_of(self, rows: Any) -> pa.Schema:
        return cast(pa.Schema, rows.schema)

    def write_files(self, rows: Any, directory: str) -> None:
        _write(rows, directory.removeprefix("file://"), ["topic", "date"])

    def read_files(self, table: Any, paths: list[str], *, parts: int | None = None) -> Any:
        schema = pa.schema(table.schema().to_arrow())
        by = ds.partitioning(pa.schema([schema.field(name) for name in ("topic", "date")]), flavor="hive")
        files = [f"{self.path}/{one}" for one in paths]
        return ds.dataset(files, schema=schema, partitioning=by, partition_base_dir=self.path).to_table()


def _write(rows: pa.Table, directory: str, by: list[str]) -> None:
    kinds = pa.schema([rows.schema.field(name) for name in by])
    ds.write_dataset(rows, directory, format="parquet", partitioning=ds.partitioning(kinds, flavor="hive"))


def opener(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str = "") -> Open:
    """Opens the same archive each time it is called, with the given options: ``iceberg`` is a directory,
    ``iceberg-rest`` has its catalog at ``url``.
    """
    monkeypatch.setattr("tidelog.spark.pipelines.tables.iceberg.IcebergCommits", ArrowIceberg)
    monkeypatch.setattr("tidelog.spark.pipelines.tables.delta.DeltaCommits", ArrowDelta)
    nothing = cast(Any, None)  # no Spark session
    target = str(tmp_path / "archive")
    if kind == "delta":
        return lambda **more: open_delta(nothing, target, more)
    if kind == "iceberg":
        return lambda **more: open_iceberg(nothing, target, more)
    if kind == "iceberg-rest":
        return lambda **more: open_iceberg(
            nothing, "raw.orders", {"catalog": "lake", "type": "rest", "uri": url, **more}
        )
    catalog = {"catalog": "lake", "type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    catalog |= {"warehouse": f"file://{tmp_path}/warehouse"}
    return lambda **more: open_iceberg(nothing, "raw.orders", {**catalog, **more})


def records(*offsets: int, day: int = 0, decoded: pa.StructType = DECODED, **fields: Any) -> pa.Table:
    """Offsets of partition 0."""
    moment = DAY + datetime.timedelta(days=day)
    headers = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("topicId", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("date", pa.date32()),
            ("value", pa.binary()),
            ("headers", headers),
            ("decoded", decoded),
        ]
    )
    rows = [
        {
            "topic": "007",
            "topicId": TOPIC_ID,
            "partition": 0,
            "offset": offset,
            "timestamp": moment,
            "date": moment.date(),
            "value": b"%d" % offset,
            "headers": [{"key": "k", "value": b"v"}],
            "decoded": {"id": offset, **fields},
        }
        for offset in offsets
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def undecodable(*offsets: int) -> pa.Table:
    return records(*offsets).drop_columns(["decoded"])


def at(end: int) -> Position:
    """Partition 1 is always at 9 and has no records."""
    return Position({PLACES[0]: Span(0, end), PLACES[1]: Span(9, 9)}) if end else Position()


def add(table: TwoTables, start: int, end: int, good: Any = None, broken: Any = None) -> Any:
    rows = Rows(cast(Any, records(*range(start, end)) if good is None else good), broken)
    return table.append(rows, Step(0, at(start), at(end)))


def offsets(table: TwoTables, part: str = "records") -> Counter[int]:
    """As another program sees the table."""
    one = table._records if part == "records" else table._undecodable
    if isinstance(one, IcebergCommits):
        found = one.load()
        assert found is not None
        return Counter(
            StaticTable.from_metadata(found.metadata_location).scan().to_arrow()["offset"].to_pylist()
        )
    assert isinstance(one, DeltaCommits)
    return Counter(Delta(one.path).to_pyarrow_table()["offset"].to_pylist())


def decoded(table: TwoTables) -> list[dict[str, Any]]:
    one = table._records
    if isinstance(one, IcebergCommits):
        found = one.load()
        assert found is not None
        return cast(list[dict[str, Any]], found.scan().to_arrow()["decoded"].to_pylist())
    return cast(list[dict[str, Any]], Delta(one.path).to_pyarrow_table()["decoded"].to_pylist())
