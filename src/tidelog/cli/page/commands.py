"""``tidelog page``: a web page about a cluster, in a process of its own."""

from typing import Annotated

import typer

from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
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
) -> None:
    """Serve a web page that shows what replication is doing, until Ctrl-C.

    Prints its address. The page is for reading only, and only this machine reaches it: from elsewhere use
    `ssh -L 8080:127.0.0.1:8080 HOST`. It works with any cluster that speaks the Kafka protocol.

    Example: tidelog page --bootstrap 127.0.0.1:9092
    """
    from tidelog.page.server import listen, serve

    addresses = addresses_of(bootstrap)
    try:
        listener = listen(HOST, port)
    except OSError as error:
        raise CommandFailed(
            f"The page cannot listen on port {port}: {(error.strerror or str(error)).lower()}; choose "
            "another one with --port."
        ) from None
    print(f"{LINE}http://{HOST}:{listener.getsockname()[1]}/", flush=True)
    serve(addresses, listener)
