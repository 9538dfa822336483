"""Columns of an Iceberg table that another program renamed.

Iceberg tells columns apart by numbers, and the files that archives add have names only. A column that is
renamed and then added again under its old name has two numbers: the rows before and after would be in
different columns.
"""

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata

from tidelog.spark.pipelines.tables import TableError


def has_renamed(metadata: TableMetadata) -> bool:
    """Whether a column has had two names: old files have the old one."""
    names: dict[int, str] = {}
    for schema in metadata.schemas:
        for number in schema.field_ids:
            name = schema.find_column_name(number) or ""
            if names.setdefault(number, name) != name:
                return True
    return False


def check_renamed(metadata: TableMetadata, added: pa.Schema, path: str) -> None:
    """Raise :class:`TableError` if a column of new files now has another name in the table."""
    wanted = {*_names(added)}
    now = metadata.schema()
    known = {number: now.find_column_name(number) for number in now.field_ids}
    missing = wanted - {*known.values()}
    for schema in metadata.schemas:
        for number in schema.field_ids:
            before = schema.find_column_name(number)
            if before in missing and known.get(number):
                raise TableError(
                    f"{path} has the column {before} under the name {known[number]}, which another program "
                    "gave it: rename it back, or archive to a new target."
                )


def _names(fields: "pa.Schema | pa.StructType", prefix: str = "") -> list[str]:
    found: list[str] = []
    for one in fields:
        found.append(prefix + one.name)
        if pa.types.is_struct(one.type):
            found += _names(one.type, f"{prefix}{one.name}.")
    return found
