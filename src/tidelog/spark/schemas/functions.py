"""``from_tidelog`` and ``to_tidelog``: values with schemas as columns of Spark, like its ``from_avro``.

Decoding runs in Python workers on whole Arrow batches. The driver settles the reader's schema once, when the
column is made.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.spark.options import OptionError
from tidelog.spark.schemas import reading, writing
from tidelog.spark.schemas.errors import UnreadableValue
from tidelog.spark.schemas.reading import Reading
from tidelog.spark.schemas.registry import Reference, RegistrySettings
from tidelog.spark.schemas.writing import Writing

if TYPE_CHECKING:
    from pyspark.sql import Column

MODES = ("FAILFAST", "PERMISSIVE")
CONTENT, UNDECODABLE = "content", "undecodable"


def from_tidelog(
    column: "Column | str",
    format: str = "confluent-avro",  # noqa: A002 — the word that Spark's readers use
    *,
    registry: str = "",
    subject: str = "",
    schema: str = "",
    registry_options: Mapping[str, str] | None = None,
    ids: Sequence[int] = (),
    message: str = "",
    mode: str = "FAILFAST",
) -> "Column":
    """Binary values as a column of the reader's schema: ``schema``, or the newest of ``subject``.

    ``mode`` says what becomes of undecodable values: FAILFAST fails the query, PERMISSIVE makes them null.
    ``ids`` are for values with a schema id but without a registry: those that have the given schema.
    """
    if mode.upper() not in MODES:
        raise OptionError(f"The mode is {mode!r}; allowed: {', '.join(MODES)}.")
    read = reading.plan(format, schema, _settings(registry, registry_options), subject, ids, message)
    is_strict = mode.upper() == "FAILFAST"

    def decode(values: pa.Array) -> pa.Array:
        content, bad = read.decode(values)
        if is_strict and bad.any():
            raise UnreadableValue(
                f"{int(bad.sum())} of {len(bad)} values do not match the schema; "
                "use mode PERMISSIVE to get null instead."
            )
        return content

    return _udf(decode, spark_type(read.type))(column)


def to_tidelog(
    column: "Column | str",
    format: str = "confluent-avro",  # noqa: A002 — the word that Spark's readers use
    *,
    registry: str = "",
    subject: str = "",
    schema: str = "",
    registry_options: Mapping[str, str] | None = None,
    references: Sequence[Reference] = (),
    register: bool = True,
    message: str = "",
) -> "Column":
    """A column as binary values of ``schema``, or of the newest schema of ``subject``.

    A given schema is registered under the subject. With ``register=False`` it must be registered already.
    """
    plan = writing.plan(
        format,
        schema,
        _settings(registry, registry_options),
        subject,
        references=tuple(references),
        register=register,
        message=message,
    )
    return encoded(plan, column)


def encoded(plan: Writing, column: "Column | str") -> "Column":
    def encode(rows: pa.Array) -> pa.Array:
        return plan.encode(rows)

    return _udf(encode, "binary")(column)


def decoded_and_marked(read: Reading, column: str) -> "Column":
    """A struct of the content, null if there is none, and whether the value is undecodable."""
    content_type = spark_type(read.type)

    def decode(values: pa.Array) -> pa.Array:
        content, bad = read.decode(values)
        return pa.StructArray.from_arrays([content, pa.array(bad.astype(bool))], [CONTENT, UNDECODABLE])

    from pyspark.sql.types import BooleanType, StructType

    both = StructType().add(CONTENT, content_type).add(UNDECODABLE, BooleanType())
    return _udf(decode, both)(column)


def spark_type(kind: pa.DataType) -> Any:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def _settings(url: str, options: Mapping[str, str] | None) -> RegistrySettings | None:
    if not url:
        if options:
            raise OptionError("Registry options need the address of the registry.")
        return None
    return RegistrySettings.of(url, options)


def _udf(function: Any, kind: Any) -> "Callable[[Column | str], Column]":
    from pyspark.sql.pandas import functions

    make: Any = functions.arrow_udf
    # Otherwise Spark may run it twice, for a filter on its result and for the result.
    made: Callable[[Column | str], Column] = make(function, kind).asNondeterministic()
    return made
