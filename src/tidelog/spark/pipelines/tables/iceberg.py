"""Archives as Iceberg tables: files that Spark writes and PyIceberg commits, so no jar is needed.

Owns what an archive's table looks like in Iceberg and where its mark lies. Catalogs are in
:mod:`tidelog.spark.pipelines.tables.iceberg_catalogs`, compaction and expiry in
:mod:`tidelog.spark.pipelines.tables.iceberg_upkeep`.

The mark (position, attempt) of a commit is in the summary of its snapshot and in the table's properties, both
set by that commit. The summary counts: it stays right if the table is rolled back to an earlier snapshot.
The properties are for snapshots whose ancestors are expired, and for positions that are too long to be kept
with every snapshot.

Partitions are hidden ones, by topic and by the time of the record: ``timestamp`` and ``topic`` are in the
files, and a query that names them is pruned. The unit of time can be changed for new files
(``partition-by``).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ResolveError,
    TableAlreadyExistsError,
    ValidationError,
    ValidationException,
)
from pyiceberg.io.pyarrow import PyArrowFileIO, schema_to_pyarrow
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, Transform, YearTransform

from tidelog.spark.pipelines.tables import (
    Compacted,
    Position,
    PositionMoved,
    Raw,
    Say,
    TableError,
    check_values,
)
from tidelog.spark.pipelines.tables.direct import direct_write
from tidelog.spark.pipelines.tables.iceberg_catalogs import (
    Conflict,
    Identifier,
    load_guarded,
    open_catalog,
)
from tidelog.spark.pipelines.tables.iceberg_columns import check_renamed, has_renamed
from tidelog.spark.pipelines.tables.staging import (
    Written,
    arrow_schema,
    attempt_name,
    check_spelling,
    is_output,
    read_parquet,
    write_parquet,
)
from tidelog.spark.pipelines.tables.two_tables import (
    UNKNOWN,
    Mark,
    TwoTables,
    incomplete,
    removed_before_the_commit,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POSITION, ATTEMPT, APART = "tidelog.position", "tidelog.attempt", "tidelog.undecodable-files"
ROWS = "tidelog.rows"
SEQUENCE = "tidelog.sequence-number"  # Of the commit that set the properties.
POSITION_MAX_CHARS = 4096  # In the summary of each snapshot; a longer position is only in the properties.

COMMITS_MAX = 20  # Commits that others may make while we try to make one.

# The part of the record's time that separates partitions; in Spark, the same in UTC. The column date has
# limits, so it is not used.
_DAY = "cast(floor(unix_seconds(timestamp) / 86400) as int)"
UNITS: dict[str, tuple[Transform[Any, Any], str]] = {
    "hour": (HourTransform(), "cast(floor(unix_seconds(timestamp) / 3600) as bigint)"),
    "day": (DayTransform(), _DAY),
    "month": (MonthTransform(), f"trunc(date_from_unix_date({_DAY}), 'MM')"),
    "year": (YearTransform(), f"trunc(date_from_unix_date({_DAY}), 'YYYY')"),
}

_BY = ("by", "at")  # Names of directories, which no reader takes for columns.

_NEW_TABLE = {
    "format-version": "2",
    # Each step adds a manifest and a metadata file: old ones are merged and removed as they pile up.
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}


def open_iceberg(spark: "SparkSession", target: str, options: Mapping[str, str]) -> TwoTables:
    chosen = dict(options)
    unit = chosen.pop("partition-by", None)
    if unit is not None and unit not in UNITS:
        raise TableError(f"An Iceberg archive cannot be partitioned by {unit}; allowed: {', '.join(UNITS)}.")
    catalog, namespace = open_catalog(target, chosen)

    def one(name: str) -> IcebergCommits:
        return IcebergCommits(spark, catalog, (*namespace, name), unit)

    return TwoTables(target, one("records"), one("undecodable"))


class IcebergCommits:
    """One table; implements :class:`tidelog.spark.pipelines.tables.two_tables.Commits`."""

    def __init__(
        self, spark: "SparkSession", catalog: Catalog, identifier: Identifier, unit: str | None = None
    ) -> None:
        self.spark = spark
        self.catalog = catalog
        self.identifier = identifier
        self._unit = unit  # None: as the table has it.

    @property
    def path(self) -> str:
        found = self.load()
        return found.location() if found else ".".join(self.identifier)

    def load(self) -> IcebergTable | None:
        """None if there is no such table."""
        try:
            return load_guarded(self.catalog, self.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except TableError:
            raise
        except Exception as failure:  # Each kind of catalog has exceptions of its own, and of its libraries.
            raise TableError(
                f"The Iceberg table {'.'.join(self.identifier)} cannot be loaded: {_reason(failure)}."
            ) from failure

    def usable(self) -> None:
        """Raised by :func:`open_catalog` if the catalog cannot be opened, and by :meth:`load` otherwise."""
        self.load()

    def exists(self) -> bool:
        return self.load() is not None

    def mark(self) -> Mark:
        found = self.load()
        return read_mark(found.metadata) if found else Mark()

    # -- adding ----------------------------------------------------------------------------

    def write(self, rows: "DataFrame", attempt: int, raw: Raw | None = None) -> list[Written]:
        schema = self.schema_of(rows)
        table = self._ready_for(schema)
        unit, directory = unit_of(table.metadata), directory_of(table, attempt)
        direct = direct_write(self.spark, raw, directory, schema, by=_BY, unit=unit)
        if direct is None or direct.run() is None:
            self.write_files(rows, unit, directory)
        return self.written(attempt)

    def schema_of(self, rows: "DataFrame") -> pa.Schema:
        return arrow_schema(rows)

    def write_files(self, rows: "DataFrame", unit: str, directory: str) -> None:
        """Each file has records of one partition."""
        from pyspark.sql import functions

        # In short: names of directories have at most 255 characters, and those of topics up to 249.
        split = rows.withColumn(_BY[0], functions.col("topic")).withColumn(
            _BY[1], functions.expr(UNITS[unit][1])
        )
        write_parquet(split, directory, _BY)

    def written(self, attempt: int) -> list[Written]:
        table = self._existing()
        directory = directory_of(table, attempt)
        filesystem, root = arrow_files(table, directory)
        found = filesystem.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
        output = (one for one in found if is_output(one.path.removeprefix(root).lstrip("/")))
        files = sorted(output, key=lambda one: one.path)
        return [
            Written(
                f"{directory}{one.path.removeprefix(root)}",
                pq.read_metadata(one.path, filesystem=filesystem).num_rows,
                one.size,
            )
            for one in files
        ]

    def discard(self, attempt: int) -> None:
        table = self._existing()
        filesystem, root = arrow_files(table, directory_of(table, attempt))
        filesystem.delete_dir(root)

    def commit(self, files: list[Written], mark: Mark, *, expected: Mark) -> None:
        paths = [one.path for one in files]

        def change(table: IcebergTable) -> None:
            if read_mark(table.metadata) != expected:
                raise PositionMoved(f"{self.path} has another position: another run added records.")
            said = _said(mark)
            sequence = str(getattr(table.metadata, "last_sequence_number", 0) + 1)
            short = {key: value for key, value in said.items() if len(value) <= POSITION_MAX_CHARS}
            with table.transaction() as transaction:
                transaction.set_properties({**said, SEQUENCE: sequence})
                try:
                    transaction.add_files(paths, short, check_duplicate_files=False)
                except FileNotFoundError as gone:
                    if len(_left(table, paths)) < len(paths):
                        raise removed_before_the_commit(self.path) from gone
                    raise TableError(
                        f"{self.path} lacks a file of its metadata: restore it from a copy, or archive to a "
                        f"new target ({_reason(gone)})."
                    ) from gone

        self.change(change)

    def change(self, change: Callable[[IcebergTable], None]) -> None:
        """Commit on top of the current snapshot; again, if another commit was faster."""
        for _ in range(COMMITS_MAX):
            try:
                change(self._existing())
            except Conflict:
                continue
            except (TableError, ValidationException):
                raise
            except OverflowError as failure:  # PyIceberg reads the least and greatest time of every file.
                raise TableError(
                    "A record has a time outside of the years 1 to 9999, which PyIceberg cannot store: "
                    "archive its topic in a table of another format (--table-format parquet or delta)."
                ) from failure
            except Exception as failure:  # As in load().
                raise TableError(
                    f"The commit to {self.path} failed: {_reason(failure)}; the next run continues from what "
                    "the table has."
                ) from failure
            return
        raise TableError(f"{self.path} changes too often to commit to it: run this again later.")

    def _ready_for(self, schema: pa.Schema) -> IcebergTable:
        """The table, with all columns and partitions that new files need."""
        found = self.load()
        if found is not None:
            check_renamed(found.metadata, schema, self.path)
        if found is None:
            self._create(schema)
        elif self.totals()[0]:
            check_values(found.schema().column_names, schema.names, self.path)
        self.change(lambda table: self._evolve(table, schema))
        return self._existing()

    def _create(self, schema: pa.Schema) -> None:
        for depth in range(1, len(self.identifier)):
            namespace = self.identifier[:depth]
            if not self.catalog.namespace_exists(namespace):
                try:
                    self.catalog.create_namespace(namespace)
                except NamespaceAlreadyExistsError:
                    continue
        try:
            self.catalog.create_table(
                self.identifier, schema, partition_spec=UNPARTITIONED_PARTITION_SPEC, properties=_NEW_TABLE
            )
        except TableAlreadyExistsError:
            return  # Another run was faster.

    def _evolve(self, table: IcebergTable, schema: pa.Schema) -> None:
        try:
            with table.transaction() as transaction:
                check_spelling(schema_to_pyarrow(table.schema(), include_field_ids=False), schema, self.path)
                with transaction.update_schema() as schemas:
                    schemas.union_by_name(schema)
                wanted = self._unit or ("day" if table.spec().is_unpartitioned() else unit_of(table.metadata))
                if table.spec().is_unpartitioned() or wanted != unit_of(table.metadata):
                    with transaction.update_spec() as partitions:
                        if table.spec().is_unpartitioned():
                            partitions.add_identity("topic")
                        else:
                            partitions.remove_field(f"timestamp_{unit_of(table.metadata)}")
                        partitions.add_field("timestamp", UNITS[wanted][0], f"timestamp_{wanted}")
        except (ResolveError, ValidationError, ValueError) as failure:
            raise TableError(
                f"{self.path} cannot take records of this schema: {_reason(failure)}; give the changed field "
                "another name, or archive to a new target."
            ) from failure

    def _existing(self) -> IcebergTable:
        found = self.load()
        if found is None:
            raise TableError(
                f"There is no Iceberg table {'.'.join(self.identifier)}: name an existing archive, or run "
                "the archive first."
            )
        return found

    # -- the rest --------------------------------------------------------------------------

    def compact(self, *, target_bytes: int, say: Say, files_min: int = 2) -> Compacted:
        from tidelog.spark.pipelines.tables.iceberg_upkeep import compact

        return compact(self, target_bytes, say, files_min) if self.load() else Compacted()

    def expire(self, *, older_than_ms: int, say: Say) -> Compacted:
        from tidelog.spark.pipelines.tables.iceberg_upkeep import expire

        return expire(self, older_than_ms, say) if self.load() else Compacted()

    def read(self, attempt: int = 0, *, left: bool = False) -> "DataFrame":
        table = self._existing()
        tasks = list(table.scan().plan_files())
        lacks = attempt and read_mark(table.metadata).attempt != attempt
        if has_renamed(table.metadata) or any(one.delete_files for one in tasks):
            if lacks:
                raise incomplete(self.path)
            return self._read_with_jar(table)
        more = [one.path for one in self.written(attempt)] if lacks else []
        paths = [one.file.file_path for one in tasks]
        return self.read_files(table, (_left(table, paths) if left else paths) + more)

    def read_files(self, table: IcebergTable, paths: list[str], *, parts: int | None = None) -> "DataFrame":
        """``parts``: the number of Spark's tasks."""
        schema = schema_to_pyarrow(table.schema(), include_field_ids=False)
        # Without partitions from the names of directories: the columns are in the files.
        rows = read_parquet(self.spark, schema, paths, recursiveFileLookup="true")
        return rows if parts is None else rows.coalesce(parts)

    def _read_with_jar(self, table: IcebergTable) -> "DataFrame":
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return self.spark.read.format("iceberg").load(table.location())
        except (PySparkException, Py4JError) as failure:
            raise TableError(
                f"{table.location()} has deleted rows or renamed columns, which another program made: "
                "reading it needs a Spark session with Iceberg's runtime jar."
            ) from failure

    def totals(self) -> tuple[int, int, int]:
        found = self.load()
        snapshot = found.metadata.current_snapshot() if found else None
        if snapshot is None or snapshot.summary is None:
            return 0, 0, 0
        told = snapshot.summary.additional_properties
        rows, files, size = (
            int(told.get(key, 0)) for key in ("total-records", "total-data-files", "total-files-size")
        )
        return rows, files, size


def read_mark(metadata: TableMetadata) -> Mark:
    """Of the current snapshot or its nearest ancestor that has one."""
    snapshot = metadata.current_snapshot()
    sequence = snapshot.sequence_number or 0 if snapshot else 0
    properties = metadata.properties
    while snapshot is not None:
        told = snapshot.summary.additional_properties if snapshot.summary else {}
        if ATTEMPT in told:
            if POSITION in told:
                return _mark(told)
            if properties.get(ATTEMPT) == told[ATTEMPT]:
                return _mark(properties)
            raise _rolled_back(metadata)
        parent = snapshot.parent_snapshot_id
        snapshot = metadata.snapshot_by_id(parent) if parent is not None else None
    if ATTEMPT not in properties:
        return Mark()
    if int(properties[SEQUENCE]) > sequence:
        raise _rolled_back(metadata)
    return _mark(properties)


def _mark(told: Mapping[str, str]) -> Mark:
    rows = int(told.get(ROWS, UNKNOWN))
    return Mark(Position.from_json(told[POSITION]), int(told[ATTEMPT]), int(told[APART]), rows)


def _said(mark: Mark) -> dict[str, str]:
    return {
        POSITION: mark.position.to_json(),
        ATTEMPT: str(mark.attempt),
        APART: str(mark.apart),
        ROWS: str(mark.rows),
    }


def _rolled_back(metadata: TableMetadata) -> TableError:
    return TableError(
        f"{metadata.location} was rolled back to a snapshot that does not tell its position: set it to a "
        "later snapshot, or archive the topics to a new target."
    )


def unit_of(metadata: TableMetadata) -> str:
    """By which the table's new files are partitioned."""
    for one in metadata.spec().fields:
        unit = one.name.removeprefix("timestamp_")
        if unit in UNITS:
            return unit
    raise TableError(
        f"{metadata.location} is partitioned in a way that an archive does not use: restore partitions by "
        "topic and by a time of the column timestamp, named such as timestamp_day."
    )


def arrow_files(table: IcebergTable, location: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a location, and the path there."""
    scheme, netloc, path = PyArrowFileIO.parse_location(location)
    io = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)
    return io.fs_by_scheme(scheme, netloc), path


def _left(table: IcebergTable, paths: list[str]) -> list[str]:
    """Without those that were deleted."""
    filesystem, _ = arrow_files(table, table.location())
    infos = filesystem.get_file_info([PyArrowFileIO.parse_location(one)[2] for one in paths])
    return [path for path, one in zip(paths, infos, strict=True) if one.type == pafs.FileType.File]


def directory_of(table: IcebergTable, attempt: int) -> str:
    return f"{table.location().rstrip('/')}/data/{attempt_name(attempt)}"


def _reason(failure: Exception) -> str:
    return (str(failure).strip() or type(failure).__name__).splitlines()[0].rstrip(".")
