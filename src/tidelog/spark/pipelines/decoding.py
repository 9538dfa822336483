"""Values that are JSON, Avro or Protobuf become columns; undecodable ones are set apart, never dropped.

Owns what "decodable" means for a pipeline. Spark itself decodes JSON; the other formats are decoded by
:mod:`tidelog.spark.schemas`.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.spark.options import OptionError
from tidelog.spark.schemas import reading, writing
from tidelog.spark.schemas.registry import RegistrySettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DECODED = "decoded"
_BROKEN = "_undecodable"
_TEXT = "_text"
_READ = "_read"

FORMATS = ("json", *reading.FORMATS)


@dataclass(frozen=True, slots=True)
class Decoding:
    """The values' format and schema in its own language (Spark's DDL for JSON, JSON for Avro)."""

    format: str
    schema: str = ""  # empty: the newest of the subject
    registry: RegistrySettings | None = None
    subject: str = ""
    ids: tuple[int, ...] = ()  # without a registry: schema ids of values that have the given schema
    message: str = ""  # of a Protobuf schema with several; empty: the first
    # Settled once: all batches of a run have the same columns, whatever is registered meanwhile.
    _reading: reading.Reading | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise OptionError(f"The format is {self.format!r}; allowed: {', '.join(FORMATS)}.")
        if self.format != "json":
            planned = reading.plan(
                self.format, self.schema, self.registry, self.subject, self.ids, self.message
            )
            if not pa.types.is_struct(planned.type):
                raise OptionError("The schema is not a record; only records can become columns.")
            object.__setattr__(self, "_reading", planned)
        elif not self.schema.strip():
            raise OptionError("The format json needs a schema.")
        elif self.registry is not None:
            raise OptionError(
                "Values in the format json have no schema id; use confluent-json with a registry."
            )

    @classmethod
    def from_file(cls, format_: str, path: str, **more: Any) -> "Decoding":
        try:
            return cls(format_, Path(path).read_text(), **more)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise OptionError(f"The schema {path} cannot be read: {reason}.") from None

    def apply(self, records: "DataFrame") -> "DataFrame":
        """With a column :data:`DECODED`; :func:`split` separates rows without it."""
        if self._reading is None:
            return self._apply_json(records)
        return _apply_schema(records, self._reading)

    def _apply_json(self, records: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions

        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
        text = functions.col(_TEXT)
        # Spark's reader stops at the end of the first JSON value and ignores what follows. As a member of an
        # object, text may only be followed by what begins with a comma or a brace; as the only item of a
        # list, by what begins with a bracket. Text that passes both is one JSON value.
        member = functions.concat(functions.lit('{"v":'), text, functions.lit("}"))
        item = functions.concat(functions.lit("["), text, functions.lit("]"))
        columns = self.schema.strip().rstrip(",")
        parsed = functions.from_json(member, f"v struct<{columns}>, {_BROKEN} string", options)
        is_one = functions.size(functions.from_json(item, "array<struct<>>", options)) == 1
        content = functions.col(f"{_READ}.v")
        is_good = functions.col(f"{_READ}.{_BROKEN}").isNull() & content.isNotNull() & is_one
        is_broken = functions.col("value").isNotNull() & ~functions.coalesce(is_good, functions.lit(False))
        return (
            records.withColumn(_TEXT, functions.col("value").cast("string"))
            .withColumn(_READ, parsed)
            .withColumn(DECODED, content)
            .withColumn(_BROKEN, is_broken)
            .drop(_TEXT, _READ)
        )


@dataclass(frozen=True, slots=True)
class Encoding:
    """The format and schema of values that are written."""

    format: str
    schema: str = ""  # empty: the newest of the subject
    registry: RegistrySettings | None = None
    subject: str = ""
    message: str = ""
    _writing: writing.Writing = field(init=False, repr=False, compare=False)  # settled once, as in Decoding

    def __post_init__(self) -> None:
        planned = writing.plan(self.format, self.schema, self.registry, self.subject, message=self.message)
        object.__setattr__(self, "_writing", planned)

    def apply(self, column: "Column") -> "Column":
        """A struct as a value."""
        from tidelog.spark.schemas.functions import encoded

        return encoded(self._writing, column)


def _apply_schema(records: "DataFrame", read: reading.Reading) -> "DataFrame":
    from pyspark.sql import functions

    from tidelog.spark.schemas.functions import CONTENT, UNDECODABLE, decoded_and_marked

    return (
        records.withColumn(_READ, decoded_and_marked(read, "value"))
        .withColumn(DECODED, functions.col(f"{_READ}.{CONTENT}"))
        .withColumn(_BROKEN, functions.col(f"{_READ}.{UNDECODABLE}"))
        .drop(_READ)
    )


def split(decoded: "DataFrame") -> tuple["DataFrame", "DataFrame"]:
    """(rows that were decoded, or have no value; the others, unchanged)."""
    from pyspark.sql import functions

    good = decoded.where(~functions.col(_BROKEN)).drop(_BROKEN)
    return good, decoded.where(functions.col(_BROKEN)).drop(_BROKEN, DECODED)


def marked(decoded: "DataFrame", mark: str) -> "DataFrame":
    """All rows, with a column that is true for those that :func:`split` would set apart."""
    return decoded.withColumnRenamed(_BROKEN, mark)
