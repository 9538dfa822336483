"""Schemas that only grow: what a table's columns are after rows with other ones were added.

Owns which changes fit. New columns and new fields of structs do, at any depth; numbers may become wider.
"""

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from tidelog.spark.pipelines.tables import TableError

_WIDER = {
    (narrow, wide)
    for family in ((ByteType, ShortType, IntegerType, LongType), (FloatType, DoubleType))
    for number, narrow in enumerate(family)
    for wide in family[number:]
}


class SchemaMisfit(TableError):
    """Rows that a table cannot take."""


def merged(known: StructType | None, added: StructType, table: str) -> StructType:
    """All columns of both; :class:`SchemaMisfit` names the one that has two types."""
    found = _merged(known if known is not None else StructType(), added, "", table)
    if not isinstance(found, StructType):
        raise TypeError(found)
    return found


def with_partition_columns(schema: StructType) -> StructType:
    """Names of directories are text: a topic named 007 is no number."""
    types: dict[str, DataType] = {"topic": StringType(), "date": DateType()}
    return StructType([StructField(one.name, types.get(one.name, one.dataType), True) for one in schema])


def _merged(known: DataType, added: DataType, where: str, table: str) -> DataType:
    match known, added:
        case StructType(), StructType():
            return StructType(_fields(known, added, where, table))
        case ArrayType(), ArrayType():
            return ArrayType(_merged(known.elementType, added.elementType, f"{where}[]", table), True)
        case MapType(), MapType():
            key = _merged(known.keyType, added.keyType, f"{where}.key", table)
            return MapType(key, _merged(known.valueType, added.valueType, f"{where}.value", table), True)
    if known == added or (type(added), type(known)) in _WIDER:
        return known
    if (type(known), type(added)) in _WIDER:
        return added
    raise SchemaMisfit(
        f"The column {where} of {table} is {known.simpleString()}, and the new records have "
        f"{added.simpleString()}: give the field another name, or archive to another target."
    )


def _fields(known: StructType, added: StructType, where: str, table: str) -> list[StructField]:
    fresh = {one.name: one.dataType for one in added}
    spellings = {one.name.lower(): one.name for one in known}
    for name in fresh:
        if spellings.get(name.lower(), name) != name:
            raise SchemaMisfit(
                f"{table} has a column {spellings[name.lower()]}, and the new records have {name}, which "
                "Spark does not tell apart: give the field another name, or archive to another target."
            )
    fields = []
    for one in known:
        name = f"{where}.{one.name}" if where else one.name
        kind = fresh.pop(one.name, one.dataType)
        fields.append(StructField(one.name, _merged(one.dataType, kind, name, table), True))
    return fields + [StructField(name, _nullable(kind), True) for name, kind in fresh.items()]


def _nullable(kind: DataType) -> DataType:
    """Rows of before have none."""
    match kind:
        case StructType():
            return StructType([StructField(one.name, _nullable(one.dataType), True) for one in kind])
        case ArrayType():
            return ArrayType(_nullable(kind.elementType), True)
        case MapType():
            return MapType(kind.keyType, _nullable(kind.valueType), True)
    return kind
