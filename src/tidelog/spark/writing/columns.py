"""The columns a writer takes, checked once by their Spark types and turned into flat arrays for each Arrow
batch.

Owns names, types and meaning of the columns, which are those of Spark's Kafka sink: ``key``, ``value``,
``topic``, ``partition``, ``headers``; and ``timestamp`` beside them. Other columns are left alone, as Spark
does. Nothing here runs once per row: Arrow's buffers are looked at where they lie.

========== ================================== ========================================================
column     type                               notes
========== ================================== ========================================================
value      string or binary, must be there    null: a tombstone
key        string or binary                   chooses the partition; null: spread
topic      string                             needed unless the option ``topic`` is given, which wins
partition  int                                wins over the key; null: by the key
timestamp  timestamp                          null or no column: the time of writing
headers    array<struct<key:string,           null: none
           value:binary>>
========== ================================== ========================================================
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampType,
)

from tidelog.spark.options import OptionError
from tidelog.spark.writing.kernel import BYTES, NUMBERS, BytesColumn, HeadersColumn, Rows


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse a schema that cannot be written; the message names the column and the allowed types."""
    found = {field.name.lower(): field.dataType for field in schema.fields}
    if "value" not in found:
        raise OptionError(f"There is no column 'value' to write; there are {', '.join(found) or 'none'}.")
    if topic is None and "topic" not in found:
        raise OptionError("Neither the option 'topic' nor a column 'topic' says where to write.")
    for name, (allowed, fits) in _ALLOWED.items():
        if name in found and not fits(found[name]):
            raise OptionError(f"Column '{name}' is {found[name].simpleString()}; allowed: {allowed}.")


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    types = [field.dataType for field in kind.elementType.fields]
    return len(types) == 2 and isinstance(types[0], StringType) and isinstance(types[1], BinaryType)


def _one_of(*kinds: type[DataType]) -> Callable[[DataType], bool]:
    return lambda kind: isinstance(kind, kinds)


_ALLOWED: dict[str, tuple[str, Callable[[DataType], bool]]] = {
    "key": ("string, binary", _one_of(StringType, BinaryType)),
    "value": ("string, binary", _one_of(StringType, BinaryType)),
    "topic": ("string", _one_of(StringType)),
    "partition": ("int", _one_of(IntegerType)),
    "timestamp": ("timestamp", _one_of(TimestampType)),
    "headers": ("array<struct<key:string,value:binary>>", _is_headers),
}


def first_topic(batch: pa.RecordBatch) -> str | None:
    """One of the topics in the column ``topic``; None: all are null."""
    names = [name.lower() for name in batch.schema.names]
    found = batch.column(names.index("topic")).drop_null()
    return str(found[0]) if len(found) else None


class ColumnReader:
    """Turns Arrow batches into :class:`Rows`; topics are numbered in the order they first appear."""

    def __init__(self, topic: str | None, includes_headers: bool, now_ms: Callable[[], int]) -> None:
        self.topics: list[str] = [] if topic is None else [topic]
        self._fixed_topic = topic is not None
        self._includes_headers = includes_headers
        self._now_ms = now_ms
        self._numbers: dict[str, int] = {}

    def rows(self, batch: pa.RecordBatch) -> Rows:
        columns = {name.lower(): batch.column(index) for index, name in enumerate(batch.schema.names)}
        return Rows(
            key=_bytes(columns["key"]) if "key" in columns else BytesColumn(),
            value=_bytes(columns["value"]),
            headers=_headers(columns["headers"]) if self._has_headers(columns) else HeadersColumn(),
            topics=NUMBERS if self._fixed_topic else self._topic_numbers(columns["topic"]),
            partitions=_partitions(columns["partition"]) if "partition" in columns else NUMBERS,
            timestamps_ms=self._timestamps(columns["timestamp"]) if "timestamp" in columns else NUMBERS,
        )

    def _has_headers(self, columns: dict[str, pa.Array]) -> bool:
        return self._includes_headers and "headers" in columns

    def _topic_numbers(self, column: pa.Array) -> Any:
        encoded = column.dictionary_encode()
        numbers = np.array([self._number(name.as_py()) for name in encoded.dictionary], np.int64)
        indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.where(indices < 0, -1, np.append(numbers, -1)[indices]).astype(np.int64)

    def _number(self, topic: str) -> int:
        if topic not in self._numbers:
            self._numbers[topic] = len(self.topics)
            self.topics.append(topic)
        return self._numbers[topic]

    def _timestamps(self, column: pa.Array) -> Any:
        microseconds = pc.cast(column, pa.timestamp("us", column.type.tz)).cast(pa.int64())
        filled = microseconds.fill_null(self._now_ms() * 1000)
        return np.floor_divide(filled.to_numpy(zero_copy_only=False), 1000)


def _bytes(column: pa.Array) -> BytesColumn:
    """The buffers of a column of strings or bytes, small or large, sliced or whole."""
    if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type):
        kind: type = np.int64
    else:
        kind = np.int32
    validity, offsets, data = column.buffers()
    ends: Any = np.frombuffer(offsets, kind, len(column) + 1, column.offset * np.dtype(kind).itemsize)
    return BytesColumn(
        ends.astype(np.int64),
        BYTES if data is None or data.size == 0 else np.frombuffer(data, np.uint8),
        _valid(column) if validity is not None and column.null_count else BYTES,
    )


def _valid(column: pa.Array) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)


def _partitions(column: pa.Array) -> Any:
    return column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)


def _headers(column: pa.Array) -> HeadersColumn:
    if column.null_count:
        # Arrow lets a null list point at anything; filtered lists have valid offsets.
        empty: Sequence[Any] = []
        column = pc.fill_null(column, pa.scalar(empty, column.type))
    pairs = column.values
    offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    keys, values = pairs.field(0), pairs.field(1)
    if pairs.null_count:
        keys = pc.if_else(pairs.is_valid(), keys, pa.scalar(None, keys.type))
    return HeadersColumn(offsets, _bytes(keys), _bytes(values))
