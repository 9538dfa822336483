"""The columns of the source, those of Spark's own Kafka source, and which of them a query selects."""

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark.options import OptionError, Options

HEADERS = "headers"

COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def default_schema(given: Mapping[str, str]) -> StructType:
    """The schema of a query that names none: all columns, or those of the option ``columns``."""
    options = Options(given)
    include_headers = options.flag("includeHeaders", False)
    named = options.text("columns")
    if named is None:
        names = [name for name in COLUMNS if name != HEADERS or include_headers]
    else:
        names = [_column(name.strip()) for name in named.split(",") if name.strip()]
        if not names or len(set(names)) < len(names):
            raise OptionError(
                f"Option columns is {named!r}; allowed: some of {', '.join(COLUMNS)}, each once."
            )
    return StructType([StructField(name, COLUMNS[name]) for name in names])


def _column(name: str) -> str:
    for known in COLUMNS:
        if known.lower() == name.lower():
            return known
    raise OptionError(f"Option columns names {name!r}; allowed: {', '.join(COLUMNS)}.")


def check_schema(schema: StructType) -> None:
    """A user's schema selects columns; it cannot change their types."""
    for field in schema.fields:
        expected = COLUMNS.get(field.name)
        if expected is None:
            raise OptionError(f"There is no column {field.name!r}; there are {', '.join(COLUMNS)}.")
        if not _same(field.dataType, expected):
            raise OptionError(
                f"The column {field.name} is {expected.simpleString()}; "
                f"the schema asks for {field.dataType.simpleString()}."
            )
    if not schema.fields:
        raise OptionError(f"The schema names no column; there are {', '.join(COLUMNS)}.")


def _same(one: DataType, other: DataType) -> bool:
    return one.simpleString() == other.simpleString()
