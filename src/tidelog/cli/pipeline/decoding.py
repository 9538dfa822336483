"""Options of ``tidelog pipeline`` for values with a schema."""

from typing import Annotated, Any

import typer

from tidelog.cli.failure import InvalidCommandLine
from tidelog.cli.pipeline.run import pairs

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Decode values: json, avro, confluent-avro, confluent-protobuf or confluent-json.",
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="SCHEMA",
        help="Schema of the values, or @FILE; for JSON in Spark's notation: 'id long, name string'.",
        show_default="with a registry, the newest one of the subject",
    ),
]
RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="Schema registry of the formats that begin with confluent-, such as http://localhost:8081.",
    ),
]
RegistryOptions = Annotated[
    list[str],
    typer.Option(
        "--registry-option",
        metavar="KEY=VALUE",
        help="Such as basic.auth.user.info=USER:PASSWORD or ssl.ca.location=FILE; may be repeated.",
    ),
]
Subject = Annotated[
    str | None,
    typer.Option("--subject", metavar="NAME", help="Subject in the registry.", show_default="TOPIC-value"),
]
SchemaIds = Annotated[
    list[int],
    typer.Option(
        "--schema-id",
        metavar="ID",
        help="Without a registry: the id of values that have the given schema; may be repeated.",
    ),
]
Message = Annotated[
    str | None,
    typer.Option(
        "--message", metavar="NAME", help="Message of a Protobuf schema.", show_default="the first one"
    ),
]


def decoding(
    topics: str,
    value_format: str | None,
    schema: str | None,
    registry: str | None,
    registry_options: list[str],
    subject: str | None,
    schema_ids: list[int],
    message: str | None,
) -> Any:
    """None: values stay bytes."""
    from tidelog.spark.pipelines import Decoding
    from tidelog.spark.schemas.registry import RegistrySettings

    if value_format is None:
        _refuse_without_format(
            {
                "--schema": schema, "--registry": registry, "--registry-option": registry_options,
                "--subject": subject, "--schema-id": schema_ids, "--message": message,
            }
        )  # fmt: skip
        return None
    settings = None
    if registry is not None:
        settings = RegistrySettings.of(registry, pairs(registry_options, "--registry-option"))
        if subject is None and schema is None:
            if "," in topics:
                raise InvalidCommandLine(
                    "Several topics have several subjects: name one with --subject or --schema."
                )
            subject = f"{topics}-value"
    elif registry_options:
        raise InvalidCommandLine("--registry-option needs --registry.")
    more: dict[str, Any] = {
        "registry": settings, "subject": subject or "", "ids": tuple(schema_ids), "message": message or "",
    }  # fmt: skip
    if schema is not None and schema.startswith("@"):
        return Decoding.from_file(value_format, schema[1:], **more)
    return Decoding(value_format, schema or "", **more)


def _refuse_without_format(given: dict[str, Any]) -> None:
    """Values stay bytes without a format, so these options would say nothing."""
    for option, value in given.items():
        if value:
            raise InvalidCommandLine(f"{option} says how to decode values, and needs --format.")
