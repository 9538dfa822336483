"""The reader's Avro schema, and decoders for writers' schemas."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tidelog.spark.schemas.avro.decoding import AvroDecoder
from tidelog.spark.schemas.avro.layout import Layout
from tidelog.spark.schemas.avro.model import AvroSchema, parse
from tidelog.spark.schemas.framing import Values
from tidelog.spark.schemas.registry import Registered


class AvroReader:
    def __init__(self, reader: Registered, referenced: Sequence[tuple[str, Registered]]) -> None:
        self._root = parsed(reader, referenced).root
        self._layout = Layout(self._root)

    @property
    def type(self) -> pa.DataType:
        return self._layout.type

    def decoder(
        self, writer: Registered | None, referenced: Sequence[tuple[str, Registered]]
    ) -> Callable[[Values], tuple[pa.Array, Any]]:
        root = self._root if writer is None else parsed(writer, referenced).root
        decoder = AvroDecoder(root, self._layout)
        return lambda values: decoder.decode(values.starts, values.ends, values.end)


def parsed(schema: Registered, referenced: Sequence[tuple[str, Registered]]) -> AvroSchema:
    return parse(schema.text, [one.text for _, one in referenced])
