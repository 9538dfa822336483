"""One Arrow array to values of a format, with the id of their schema in front.

The schema is settled by the driver: registered, looked up, or the newest of a subject. Rows that do not match
fail the query; a value that cannot be read again must not be written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidelog.spark.options import OptionError
from tidelog.spark.schemas import framing
from tidelog.spark.schemas.reading import KINDS
from tidelog.spark.schemas.registry import AVRO, PROTOBUF, Reference, Registered, RegistrySettings, registry

FORMATS = tuple(KINDS)

Encode = Callable[[Any], bytes]
"""A row, as ``Array.to_pylist`` gives it, to a value without what is in front of it."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How values are written; sent to Spark's workers."""

    format: str
    schema: Registered
    referenced: tuple[tuple[str, Registered], ...] = ()
    registry: RegistrySettings | None = None
    message: str = ""

    def encode(self, rows: pa.Array) -> pa.Array:
        front, encode = _encoder(self, rows.type)
        return pa.array(
            [None if one is None else front + encode(one) for one in rows.to_pylist()], pa.binary()
        )


def plan(
    format_: str,
    schema: str = "",
    registry_settings: RegistrySettings | None = None,
    subject: str = "",
    *,
    references: tuple[Reference, ...] = (),
    register: bool = True,
    message: str = "",
) -> Writing:
    """Settles the schema. A given schema is registered under the subject, or must be one of its versions."""
    if format_ not in FORMATS:
        raise OptionError(f"The format is {format_!r}; allowed: {', '.join(FORMATS)}.")
    kind = KINDS[format_]
    if format_ == "avro":
        if not schema.strip() or registry_settings is not None:
            raise OptionError(
                "The format avro needs a schema and no registry; use confluent-avro with a registry."
            )
        return _checked(Writing(format_, Registered(0, kind, schema)))
    if registry_settings is None or not subject:
        raise OptionError(f"Writing the format {format_} needs a registry and a subject.")
    client = registry(registry_settings)
    if not schema.strip():
        found = client.latest(subject)
    else:
        ask = client.register if register else client.lookup
        schema_id = ask(subject, schema, kind, references)
        if schema_id is None:
            raise OptionError(f"The given schema is not registered under the subject {subject!r}.")
        found = Registered(schema_id, kind, schema, references)
    if found.kind != kind:
        raise OptionError(
            f"The newest schema of {subject!r} is of the type {found.kind}; {format_} needs {kind}."
        )
    return _checked(Writing(format_, found, tuple(client.referenced(found)), registry_settings, message))


def _checked(writing: Writing) -> Writing:
    """An invalid schema is refused by the driver, not by a worker."""
    _encoder(writing, None)
    return writing


@lru_cache(maxsize=32)
def _encoder(writing: Writing, rows: pa.DataType | None) -> tuple[bytes, Encode]:
    """(what is in front of every value, the rest); checked against the type of the rows if that is known."""
    front = b"" if writing.format == "avro" else framing.prefix(writing.schema.id)
    if writing.schema.kind == AVRO:
        from tidelog.spark.schemas.avro.encoding import avro_encoder

        return front, avro_encoder(writing.schema, writing.referenced, rows)
    if writing.schema.kind == PROTOBUF:
        from tidelog.spark.schemas.proto_encoding import protobuf_encoder

        client = None if writing.registry is None else registry(writing.registry)
        indexes, encode = protobuf_encoder(writing.schema, writing.referenced, client, writing.message, rows)
        return front + indexes, encode
    from tidelog.spark.schemas.json_encoding import json_encoder

    return front, json_encoder(writing.schema, writing.referenced)


def refuse_unknown_fields(rows: pa.DataType | None, known: set[str], where: str) -> None:
    """A column that the schema does not have would be dropped silently."""
    if rows is None or not pa.types.is_struct(rows):
        return
    for field in rows:
        if field.name not in known:
            raise OptionError(
                f"The schema has no field {field.name!r} in {where}; there are {', '.join(sorted(known))}."
            )
