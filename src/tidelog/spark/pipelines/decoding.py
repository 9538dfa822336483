"""Values that are JSON or Avro become columns; undecodable ones are set apart, never dropped.

Owns what "decodable" means. Spark itself decodes JSON; Avro is converted to JSON first
(:mod:`tidelog.spark.pipelines.avro`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tidelog.spark.options import OptionError
from tidelog.spark.pipelines import avro

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DECODED = "decoded"
_BROKEN = "_undecodable"
_TEXT = "_text"
_CONFLUENT_PREFIX_BYTES = 5  # a zero and the number of the schema in a registry

FORMATS = ("json", "avro", "confluent-avro")


@dataclass(frozen=True, slots=True)
class Decoding:
    """The values' format and schema in its own language (Spark's DDL for JSON, JSON for Avro)."""

    format: str
    schema: str

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise OptionError(f"The format is {self.format!r}; allowed: {', '.join(FORMATS)}.")
        if not self.schema.strip():
            raise OptionError(f"The format {self.format} needs a schema.")

    @classmethod
    def from_file(cls, format_: str, path: str) -> "Decoding":
        try:
            return cls(format_, Path(path).read_text())
        except OSError as error:
            raise OptionError(f"The schema {path} cannot be read: {error.strerror}.") from None

    def apply(self, records: "DataFrame") -> "DataFrame":
        """With a column :data:`DECODED`; :func:`split` separates rows without it."""
        from pyspark.sql import functions

        text, columns = self._as_json()
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
        parsed = functions.from_json(_TEXT, f"{columns}, {_BROKEN} string", options)
        broken = functions.col(f"{DECODED}.{_BROKEN}").isNotNull()
        unread = functions.col("value").isNotNull() & functions.col(_TEXT).isNull()
        return (
            records.withColumn(_TEXT, text)
            .withColumn(DECODED, parsed)
            .withColumn(_BROKEN, functions.coalesce(broken, functions.lit(False)) | unread)
            .withColumn(DECODED, functions.col(DECODED).dropFields(_BROKEN))
            .drop(_TEXT)
        )

    def _as_json(self) -> "tuple[Column, str]":
        """The value as JSON text, null if undecodable; and its columns."""
        from pyspark.sql import functions
        from pyspark.sql.pandas.functions import arrow_udf

        if self.format == "json":
            return functions.col("value").cast("string"), self.schema.strip().rstrip(",")
        schema = avro.parse_schema(self.schema)
        skipped = _CONFLUENT_PREFIX_BYTES if self.format == "confluent-avro" else 0

        def decode(values: pa.Array) -> pa.Array:
            return pa.array([avro.to_json(one, schema, skipped) for one in values.to_pylist()], pa.string())

        decoded = arrow_udf(decode, "string")  # type: ignore[call-overload]
        return decoded("value"), avro.columns(schema)


def split(decoded: "DataFrame") -> tuple["DataFrame", "DataFrame"]:
    """(rows that were decoded, or have no value; the others, unchanged)."""
    from pyspark.sql import functions

    good = decoded.where(~functions.col(_BROKEN)).drop(_BROKEN)
    return good, decoded.where(functions.col(_BROKEN)).drop(_BROKEN, DECODED)


def marked(decoded: "DataFrame", mark: str) -> "DataFrame":
    """All rows, with a column that is true for those that :func:`split` would set apart."""
    return decoded.withColumnRenamed(_BROKEN, mark)
