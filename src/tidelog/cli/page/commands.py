"""``tidelog page``: a web page about a cluster, in a process of its own."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli import client_config
from tidelog.cli.failure import CommandFailed
from tidelog.cli.local.broker_settings import LocalBroker
from tidelog.cli.local.one_broker import brokers_of
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, flag
from tidelog.cli.reach import addresses_of

HOST = "127.0.0.1"
DEFAULT_PORT = 8080
LINE = "page "  # What the line with the address begins with.


def page(
    port: Annotated[
        int,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="Port of the page; 0 takes a free one."
        ),
    ] = DEFAULT_PORT,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    playground: Annotated[
        Path | None,
        typer.Option(
            "--playground",
            metavar="DIR",
            help="Allow loads and faults on the cluster that `tidelog up` runs in DIR, with the token of the "
            "printed address.",
            show_default="none",
        ),
    ] = None,
    admin: Annotated[
        bool,
        flag(
            "--admin",
            help="Allow changes of topics, groups and brokers, and writing messages, with the token of the "
            "printed address.",
        ),
    ] = False,
    schema_registry: Annotated[
        str | None,
        typer.Option(
            "--schema-registry",
            metavar="URL",
            help="Registry with the schemas of Avro values, for the messages; may have USER:PASSWORD@, "
            "but then better in the variable: everybody may read command lines.",
            envvar="TIDELOG_SCHEMA_REGISTRY",
            show_default="none",
        ),
    ] = None,
    demo: Annotated[bool, flag("--demo", help="Start the loads of the playground with the page.")] = False,
) -> None:
    """Serve a web page that shows what replication is doing, until Ctrl-C.

    Prints its address. Without --playground and --admin the page is for reading only. Only this machine
    reaches it: from elsewhere use `ssh -L 8080:127.0.0.1:8080 HOST`. It works with any cluster that speaks
    the Kafka protocol.

    Example: tidelog page --bootstrap 127.0.0.1:9092
    """
    from tidelog.page.server import access, listen, serve

    if demo and playground is None:
        raise CommandFailed("--demo needs --playground DIR, or use `tidelog up --demo`.")
    there = brokers_of(playground) if playground is not None else []
    if playground is not None and not there:
        raise CommandFailed(f"{playground} holds no cluster; pass the --dir of `tidelog up`.")
    of_directory = ",".join(each.address for each in there)
    if playground is not None:
        client_config.choose_of(playground)
        client_config.name_bootstrap(of_directory)
    addresses = addresses_of(of_directory or bootstrap)
    security = client_config.client_config(of_directory or bootstrap).security
    try:
        listener = listen(HOST, port)
    except OSError as error:
        raise CommandFailed(
            f"The page cannot listen on port {port}: {(error.strerror or str(error)).lower()}; choose "
            "another one with --port."
        ) from None
    command = _playground_command(playground, there) if playground is not None else ()
    may = access(command, demo=demo, admin=admin, schema_registry=_registry(schema_registry))
    print(f"{LINE}{_address(listener.getsockname()[1], may.token, demo=demo)}", flush=True)
    serve(addresses, listener, may, security)


def _registry(url: str | None) -> str:
    if url and not url.startswith(("http://", "https://")):
        raise CommandFailed(f"--schema-registry {url}: an address like http://127.0.0.1:8081 is expected.")
    return url or ""


def _address(port: int, token: str, *, demo: bool) -> str:
    """Browsers do not send what follows the ``#``; a script of the page reads the token there."""
    path = "playground" if demo else ""
    return f"http://{HOST}:{port}/{path}{f'#token={token}' if token else ''}"


def _playground_command(directory: Path, brokers: list[LocalBroker]) -> list[str]:
    addresses = ",".join(f"{each.broker_id}@{each.address}" for each in brokers)
    root = str(directory.expanduser().resolve())
    return [sys.executable, "-m", "tidelog.lab.playground.process", "--dir", root, "--brokers", addresses]
