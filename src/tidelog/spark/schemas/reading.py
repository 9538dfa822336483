"""Values of a format to one Arrow array: which schema wrote each of them, and what does not match.

With a registry, the id in front of a value names its writer's schema; the reader's schema is given, or the
newest of a subject. A registry that does not answer fails the run. An id that it does not know, and a
writer's schema that does not fit the reader's, make values undecodable.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tidelog.spark.options import OptionError
from tidelog.spark.schemas import framing
from tidelog.spark.schemas.errors import RegistryUnavailable, Undecodable
from tidelog.spark.schemas.framing import Values
from tidelog.spark.schemas.registry import (
    AVRO,
    JSON,
    PROTOBUF,
    Registered,
    Registry,
    RegistrySettings,
    registry,
)

FORMATS = ("avro", "confluent-avro", "confluent-protobuf", "confluent-json")
KINDS = {"avro": AVRO, "confluent-avro": AVRO, "confluent-protobuf": PROTOBUF, "confluent-json": JSON}
_DECODERS_MAX = 200

Decoded = tuple[pa.Array, Any]
"""An array, and one byte for each row: 1 if its value does not match."""

Decode = Callable[[Values], Decoded]


class FormatReader(Protocol):
    """The reader's schema in one format."""

    @property
    def type(self) -> pa.DataType: ...

    def decoder(self, writer: Registered | None, referenced: Sequence[tuple[str, Registered]]) -> Decode:
        """For values of a writer's schema; None: it is the reader's. May raise :class:`Undecodable`."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """How values are read; sent to Spark's workers. :func:`plan` has settled the reader's schema."""

    format: str
    reader: Registered  # its id is 0 if it was given as text
    referenced: tuple[tuple[str, Registered], ...] = ()
    registry: RegistrySettings | None = None
    ids: tuple[int, ...] = ()  # without a registry: ids of values that have the reader's schema
    message: str = ""  # of a Protobuf schema with several

    @property
    def type(self) -> pa.DataType:
        return _reader(self).type

    def decode(self, values: pa.Array) -> Decoded:
        return _value_reader(self).decode(Values.of(values))


def plan(
    format_: str,
    schema: str = "",
    registry_settings: RegistrySettings | None = None,
    subject: str = "",
    ids: Sequence[int] = (),
    message: str = "",
) -> Reading:
    """Settles the reader's schema, and refuses what could not be known later."""
    if format_ not in FORMATS:
        raise OptionError(f"The format is {format_!r}; allowed: {', '.join(FORMATS)}.")
    kind = KINDS[format_]
    if registry_settings is None:
        if not schema.strip():
            raise OptionError(
                f"The format {format_} needs a schema{'' if format_ == 'avro' else ' or a registry'}."
            )
        if format_ != "avro" and not ids:
            raise OptionError(
                f"Values in the format {format_} name their schemas by ids, which only the registry knows: "
                "give its address, or the ids that have the given schema."
            )
        return _checked(Reading(format_, Registered(0, kind, schema), ids=tuple(ids), message=message))
    if format_ == "avro":
        raise OptionError("Values in the format avro have no schema id; use confluent-avro with a registry.")
    client = registry(registry_settings)
    if schema.strip():
        reader = Registered(0, kind, schema)
    elif subject:
        reader = client.latest(subject)
    else:
        raise OptionError(
            f"The format {format_} needs a schema, or the subject of which the newest one is used."
        )
    if reader.kind != kind:
        raise OptionError(
            f"The newest schema of {subject!r} is of the type {reader.kind}; {format_} needs {kind}."
        )
    referenced = tuple(client.referenced(reader))
    return _checked(Reading(format_, reader, referenced, registry_settings, message=message))


def _checked(reading: Reading) -> Reading:
    """An invalid schema is refused by the driver, not by a worker."""
    _ = reading.type
    return reading


@lru_cache(maxsize=32)
def _reader(reading: Reading) -> FormatReader:
    if reading.reader.kind == AVRO:
        from tidelog.spark.schemas.avro.reader import AvroReader

        return AvroReader(reading.reader, reading.referenced)
    client = None if reading.registry is None else registry(reading.registry)
    if reading.reader.kind == PROTOBUF:
        from tidelog.spark.schemas.protobuf import ProtobufReader

        return ProtobufReader(reading.reader, reading.referenced, client, reading.message)
    from tidelog.spark.schemas.json_schema import JsonReader

    return JsonReader(reading.reader, reading.referenced)


@lru_cache(maxsize=32)
def _value_reader(reading: Reading) -> "_ValueReader":
    return _ValueReader(reading)


class _ValueReader:
    """Finds and keeps a decoder for each writer's schema."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._reader = _reader(reading)
        self._registry: Registry | None = None if reading.registry is None else registry(reading.registry)
        self._decoders: OrderedDict[int, Decode | None] = OrderedDict()
        self._plain = self._reader.decoder(None, ()) if reading.format == "avro" else None

    def decode(self, values: Values) -> Decoded:
        if self._plain is not None:
            return self._plain(values)
        ids = values.ids()
        found = np.unique(ids[values.has_value()])
        if len(found) == 1 and found[0] != framing.NO_ID:
            # Rows without a value need no decoder; one for all is faster than sorting them out.
            return self._decode_one(int(found[0]), values.select(slice(None), framing.PREFIX_BYTES))
        return self._decode_many(found, ids, values)

    def _decode_many(self, found: Any, ids: Any, values: Values) -> Decoded:
        arrays, places, bad = [], [], np.zeros(len(values), np.uint8)
        for schema_id in found.tolist():
            rows = np.flatnonzero(values.has_value() & (ids == schema_id))
            array, marks = self._decode_one(schema_id, values.select(rows, framing.PREFIX_BYTES))
            bad[rows] = marks
            arrays.append(array)
            places.append(rows)
        empty = np.flatnonzero(~values.has_value())
        arrays.append(pa.nulls(len(empty), self._reader.type))
        order = np.concatenate([*places, empty])
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(arrays).take(pa.array(back)), bad

    def _decode_one(self, schema_id: int, values: Values) -> Decoded:
        decode = self._decoder(schema_id)
        if decode is None:
            return pa.nulls(len(values), self._reader.type), values.has_value().astype(np.uint8)
        return decode(values)

    def _decoder(self, schema_id: int) -> Decode | None:
        """None: values with this id are undecodable."""
        if schema_id == framing.NO_ID:
            return None
        if self._registry is None:
            if schema_id not in self._reading.ids:
                return None
            return self._kept(0, lambda: self._reader.decoder(None, ()))
        # Before what is kept: an id that was unknown a moment ago may have been registered.
        writer = self._registry.by_id(schema_id)
        return None if writer is None else self._kept(schema_id, lambda: self._resolved(writer))

    def _kept(self, schema_id: int, make: Callable[[], Decode | None]) -> Decode | None:
        if schema_id not in self._decoders:
            self._decoders[schema_id] = make()
            if len(self._decoders) > _DECODERS_MAX:
                self._decoders.popitem(last=False)
        self._decoders.move_to_end(schema_id)
        return self._decoders[schema_id]

    def _resolved(self, writer: Registered) -> Decode | None:
        if writer.kind != self._reading.reader.kind or self._registry is None:
            return None
        try:
            return self._reader.decoder(writer, self._registry.referenced(writer))
        except RegistryUnavailable:
            raise
        except (Undecodable, OptionError):
            return None
