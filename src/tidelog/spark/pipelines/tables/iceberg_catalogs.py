"""Where the tables of an Iceberg archive are registered: a catalog of the user, or the archive's directory.

A catalog decides which metadata file is the table's current one, and so which of two commits wins. PyIceberg
has the catalogs that are services or databases. :class:`DirectoryCatalog` is the one of Hadoop tables: the
directory says it all, and Spark, DuckDB and others read the table by its path.

``metadata/vN.metadata.json``  version N; the highest is the current one
``metadata/version-hint.text`` N, for readers that cannot list directories
"""

import os
import re
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from pyiceberg.catalog import Catalog, MetastoreCatalog, load_catalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, TableRequirement, TableUpdate

from tidelog.spark.pipelines.tables import TableError
from tidelog.spark.pipelines.tables.two_tables import without_metadata

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.schema import Schema

Identifier = tuple[str, ...]

_VERSION = re.compile(r"v(\d+)\.metadata\.json")


class Conflict(Exception):
    """Another commit was faster. Not PyIceberg's exception: that would make it commit anyway, on top of the
    other one.
    """


def open_catalog(target: str, options: Mapping[str, str]) -> tuple[Catalog, Identifier]:
    """The catalog and the namespace of the archive's two tables."""
    properties = dict(options)
    name = properties.pop("catalog", None)
    if name is not None:
        return _named_catalog(name, properties), tuple(target.split("."))
    if properties:
        raise TableError(
            f"The option {min(properties)} is one of an Iceberg catalog: name the catalog with --catalog."
        )
    return _keep_order(DirectoryCatalog(local_directory(target))), ()


def local_directory(target: str) -> Path:
    """Only a file system that can create a file exclusively says which of two commits won."""
    place = urlparse(target)
    if place.scheme not in ("", "file"):
        raise TableError(
            f"An Iceberg archive at {target} needs a catalog, because {place.scheme}: cannot decide between "
            "two writers: name one with --catalog, and give the namespace of its tables with --to."
        )
    found = Path(unquote(place.path) if place.scheme else target).absolute()
    if {"#", "?"} & {*str(found)}:
        raise TableError(
            f"An Iceberg archive cannot be in {found}: its files are named by URIs, in which # and ? mean "
            "something else; choose another directory."
        )
    return found


def _named_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    try:
        return _keep_order(load_catalog(name, **properties))
    except Exception as failure:  # Each kind of catalog has exceptions of its own, and of its libraries.
        raise TableError(
            f"The Iceberg catalog {name} cannot be opened ({_first_line(failure)}): describe it in "
            ".pyiceberg.yaml, or with --table-option uri=… and others."
        ) from failure


def _first_line(failure: Exception) -> str:
    return (str(failure).strip() or type(failure).__name__).splitlines()[0].rstrip(".")


class Guarded:
    """A catalog that commits only on top of the snapshot that the table was loaded with, and in the order of
    time.

    PyIceberg answers a conflict by moving its commit on top of the other one, which would add the same
    records twice. And it takes the time of a commit from the clock: Iceberg's Java readers refuse a table
    whose times go back by more than a minute.
    """

    def __init__(self, catalog: Catalog, metadata: TableMetadata) -> None:
        snapshot = metadata.current_snapshot()
        required = {"ref": "main", "snapshot-id": snapshot.snapshot_id if snapshot else None}
        self._catalog = catalog
        self._required = AssertRefSnapshotId.model_validate(required)
        self._newest_ms = newest_ms(metadata)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        others = tuple(one for one in requirements if not isinstance(one, AssertRefSnapshotId))
        in_order = tuple(_not_before(self._newest_ms, one) for one in updates)
        try:
            return self._catalog.commit_table(table, (*others, self._required), in_order)
        except CommitFailedException as failure:
            raise Conflict(str(failure)) from failure


def load_guarded(catalog: Catalog, identifier: Identifier) -> Table:
    """The table as it is now; its commits fail with :class:`Conflict` once it is not."""
    table = catalog.load_table(identifier)
    guarded: Any = Guarded(catalog, table.metadata)
    table.catalog = guarded
    return table


def newest_ms(metadata: TableMetadata) -> int:
    """The time of the newest change, by a clock that may have been ahead of the present one."""
    return max([metadata.last_updated_ms, *(one.timestamp_ms for one in metadata.snapshot_log)])


def _not_before(least_ms: int, update: TableUpdate) -> TableUpdate:
    if not isinstance(update, AddSnapshotUpdate) or update.snapshot.timestamp_ms >= least_ms:
        return update
    snapshot = update.snapshot.model_copy(update={"timestamp_ms": least_ms})
    return update.model_copy(update={"snapshot": snapshot})


def _keep_order(catalog: Catalog) -> Catalog:
    """For changes without a snapshot; a REST catalog takes their time from its server's clock."""
    if isinstance(catalog, MetastoreCatalog):
        changeable: Any = catalog
        stage = catalog._update_and_stage_table

        def staged(current: Table | None, *more: Any) -> Table:
            found = stage(current, *more)
            if current is not None:
                least_ms = max(newest_ms(current.metadata), newest_ms(found.metadata))
                found.metadata = found.metadata.model_copy(update={"last_updated_ms": least_ms})
            return found

        changeable._update_and_stage_table = staged
    return catalog


class DirectoryCatalog(NoopCatalog, MetastoreCatalog):
    """The tables in the subdirectories of one local directory; an identifier is the name of one."""

    def __init__(self, root: Path) -> None:
        super().__init__("directory")
        self._root = root

    def create_table(
        self,
        identifier: str | Identifier,
        schema: "Schema | pa.Schema",
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Mapping[str, str] = {},
    ) -> Table:
        directory = self._directory(identifier)
        if next(directory.rglob("*.parquet"), None) is not None and not self.table_exists(identifier):
            raise without_metadata(str(directory), "metadata")
        metadata = new_table_metadata(
            location=_uri(directory),
            schema=self._convert_schema_if_needed(schema),
            partition_spec=partition_spec,
            sort_order=sort_order,
            properties=dict(properties),
        )
        try:
            self._put(directory, metadata, 1)
        except CommitFailedException:
            raise TableAlreadyExistsError(f"{directory} is a table already") from None
        return self.load_table(identifier)

    def load_table(self, identifier: str | Identifier) -> Table:
        directory = self._directory(identifier)
        version = _current_version(directory)
        if version == 0:
            raise NoSuchTableError(f"There is no table in {directory}")
        location = _uri(_metadata_file(directory, version))
        try:
            metadata = FromInputFile.table_metadata(load_file_io({}, location).new_input(location))
        except (ValueError, ValidationError) as damage:
            raise TableError(
                f"{_metadata_file(directory, version)} is damaged: restore it from a copy, or archive to a "
                "new target."
            ) from damage
        _check_location(directory, metadata.location)
        return Table(
            identifier=self.identifier_to_tuple(identifier),
            metadata=metadata,
            metadata_location=location,
            io=self._load_file_io(metadata.properties, location),
            catalog=self,
        )

    def table_exists(self, identifier: str | Identifier) -> bool:
        return _current_version(self._directory(identifier)) > 0

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        return True

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        identifier = table.name()
        directory = self._directory(identifier)
        current = self.load_table(identifier)
        staged = self._update_and_stage_table(current, identifier, requirements, updates)
        version = _version_of(current.metadata_location) + 1
        location = self._put(directory, staged.metadata, version)
        return CommitTableResponse.model_validate(
            {"metadata": staged.metadata, "metadata-location": location}
        )

    def _directory(self, identifier: str | Identifier) -> Path:
        return self._root.joinpath(*self.identifier_to_tuple(identifier))

    def _put(self, directory: Path, metadata: TableMetadata, version: int) -> str:
        """Make this the given version, unless there is one."""
        final = _metadata_file(directory, version)
        final.parent.mkdir(parents=True, exist_ok=True)
        aside = final.with_name(f"{uuid.uuid4().hex}.tmp")
        ToOutputFile.table_metadata(metadata, load_file_io({}, _uri(aside)).new_output(_uri(aside)))
        try:
            _sync(aside)
            os.link(aside, final)  # Atomic, and fails if there is such a file.
        except FileExistsError:
            raise CommitFailedException(f"{directory} has a version {version} already") from None
        finally:
            aside.unlink(missing_ok=True)
        _sync(final.parent)
        if version > 1 and not _metadata_file(directory, version - 1).exists():
            # So many commits were made meanwhile that the file of this version had been removed as old.
            raise CommitFailedException(f"{directory} is far beyond version {version}")
        hint = final.with_name(f"{uuid.uuid4().hex}.hint")
        hint.write_text(str(version))
        hint.replace(final.with_name("version-hint.text"))
        return _uri(final)


def _check_location(directory: Path, location: str) -> None:
    """Metadata names files with their whole paths. Used in a copy, it would name those of the original, and
    an expiry would remove what the original has added since.
    """
    home = Path(location.removeprefix("file://"))
    if home == directory or (home.exists() and home.samefile(directory)):
        return
    raise TableError(
        f"The Iceberg table in {directory} was moved or copied from {home}, where its metadata says that its "
        f"files are: move it back, or make {home} a link to it."
    )


def _uri(path: Path) -> str:
    """Without escapes, as Iceberg's other programs write and read it."""
    return f"file://{path}"


def _metadata_file(directory: Path, version: int) -> Path:
    return directory / "metadata" / f"v{version}.metadata.json"


def _version_of(location: str) -> int:
    found = _VERSION.fullmatch(location.rpartition("/")[2])
    return int(found[1]) if found else 0


def _current_version(directory: Path) -> int:
    """Listed, not taken from the hint: a killed writer may have left an old one."""
    return max(
        (_version_of(one.name) for one in (directory / "metadata").glob("v*.metadata.json")), default=0
    )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
