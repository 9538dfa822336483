"""Options that several commands share, so that one word means the same everywhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tidelog.cli import client_config
from tidelog.cli.client_config import DEFAULT_BOOTSTRAP as DEFAULT_BOOTSTRAP


def flag(*names: str, help: str, **more: Any) -> Any:  # noqa: A002 — typer's word
    """An option without a value; help pages would otherwise show the type of the value it does not have."""
    return typer.Option(*names, metavar="", help=help, **more)


def _name_bootstrap(context: typer.Context, value: str) -> str:
    source = context.get_parameter_source("bootstrap")
    is_default = source is None or source.name in ("DEFAULT", "DEFAULT_MAP")
    client_config.name_bootstrap(None if is_default else value)
    return value


Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="TIDELOG_BOOTSTRAP",
        callback=_name_bootstrap,
        help="Addresses of brokers, separated by commas. Without it, the cluster of `tidelog up` in this "
        "directory is found by any of its brokers.",
    ),
]


def _choose(value: Path | None) -> None:
    client_config.choose(value)


ClientConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar=client_config.VARIABLE,
        expose_value=False,
        callback=_choose,
        help="A client.properties: security.protocol, ssl.… and sasl.… as Kafka's clients have them, and "
        "perhaps bootstrap.servers. That of `tidelog up --tls` in this directory is found.",
        show_default="none",
    ),
]
Json = Annotated[bool, flag("--json", help="Print JSON for scripts instead of a table.")]
Settings = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, with Kafka's name; may be repeated."),
]
Yes = Annotated[bool, flag("--yes", help="Do not ask: agree to what the command would ask for.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]
