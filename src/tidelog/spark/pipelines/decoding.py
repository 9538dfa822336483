"""Values that are JSON or Avro become columns; those that are not are set apart, never dropped.

Owns what "decodable" means. JSON is decoded by Spark itself. Avro needs Spark's own module (``spark-avro``),
which is not part of the ``pyspark`` package: where the session has it, it is used.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.spark.options import OptionError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DECODED = "decoded"
_BROKEN = "_undecodable"
_CONFLUENT_PREFIX_BYTES = 5  # a zero and the number of the schema in a registry

FORMATS = ("json", "avro", "confluent-avro")


@dataclass(frozen=True, slots=True)
class Decoding:
    """What the values are: a format and a schema in its own language (Spark's DDL for JSON, JSON for
    Avro).
    """

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
        """With a column :data:`DECODED`; :func:`split` sets apart what it could not be made of."""
        from pyspark.sql import functions

        column = self._json() if self.format == "json" else self._avro()
        with_decoded = records.withColumn(DECODED, column)
        if self.format == "json":
            broken = functions.col(f"{DECODED}.{_BROKEN}").isNotNull()
            without_mark = functions.col(DECODED).dropFields(_BROKEN)
            return with_decoded.withColumn(
                _BROKEN, functions.coalesce(broken, functions.lit(False))
            ).withColumn(DECODED, without_mark)
        missing = functions.col(DECODED).isNull() & functions.col("value").isNotNull()
        return with_decoded.withColumn(_BROKEN, missing)

    def _json(self) -> "Column":
        from pyspark.sql import functions

        schema = f"{self.schema.strip().rstrip(',')}, {_BROKEN} string"
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
        return functions.from_json(functions.col("value").cast("string"), schema, options)

    def _avro(self) -> "Column":
        from pyspark.sql import functions
        from pyspark.sql.avro.functions import from_avro

        value = functions.col("value")
        if self.format == "confluent-avro":
            value = functions.substring(value, _CONFLUENT_PREFIX_BYTES + 1, 2**31 - 1)
        return from_avro(value, self.schema, {"mode": "PERMISSIVE"})


def split(decoded: "DataFrame") -> tuple["DataFrame", "DataFrame"]:
    """(those that could be decoded, or have no value; the others, as they came)."""
    from pyspark.sql import functions

    good = decoded.where(~functions.col(_BROKEN)).drop(_BROKEN)
    return good, decoded.where(functions.col(_BROKEN)).drop(_BROKEN, DECODED)
