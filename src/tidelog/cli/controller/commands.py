"""``tidelog controller``: who keeps and decides about the cluster's metadata."""

from typing import Annotated, Any

import typer

from tidelog.cli.cluster_client import Address, ClusterClient
from tidelog.cli.controller import admin as controller_admin
from tidelog.cli.controller.admin import Node, Quorum
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from tidelog.cli.tables import count, print_json, print_table
from tidelog.client.settings import parse_bootstrap
from tidelog.types import majority

app = typer.Typer(
    no_args_is_help=True, help="See, add and remove the controllers, which decide about the cluster."
)

NodeId = Annotated[
    int, typer.Argument(metavar="NODE", min=0, help="Number of the node (node.id).", show_default=False)
]


@app.command("list")
def list_(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """List the nodes that keep the metadata log.

    The active controller decides; voters elect it and must agree to every decision by majority; observers
    (all other brokers) read along. "lag" counts the records a node still lacks.

    Example: tidelog controller list
    """
    with ClusterClient(bootstrap) as client:
        quorum = controller_admin.look(client)
    rows = [_row(node) for node in quorum.nodes]
    if json:
        print_json({"epoch": quorum.epoch, "high_watermark": quorum.high_watermark, "nodes": rows})
        return
    print(f"{_health(quorum)}\n")
    columns = ("node", "role", "alive", "address", "end_offset", "lag", "directory")
    print_table(rows, {name: name.replace("_", " ") for name in columns}, right=("node", "end_offset", "lag"))


@app.command("add")
def add(
    node: NodeId,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="Where the other controllers reach it; needed only for a node that is no broker.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Let a node vote that reads along so far.

    It must be running and have caught up. Three voters survive the loss of one, five that of two; an even
    number survives no more than the odd one below it.

    Example: tidelog controller add 4
    """
    with ClusterClient(bootstrap) as client:
        controller_admin.add(client, node, _address(address))
        voters = len(controller_admin.look(client).voters)
    print(f"Node {node} votes now; there are {count(voters, 'voter')}.")


@app.command("remove")
def remove(node: NodeId, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Let a node no longer vote.

    It goes on as an observer, and as a broker if it is one. Removing the active controller makes another
    voter the active one. For a node that will never come back, this is how the others stop waiting for it.

    Example: tidelog controller remove 2
    """
    with ClusterClient(bootstrap) as client:
        controller_admin.remove(client, node)
    print(f"Node {node} votes no longer.")


def _address(text: str | None) -> Address | None:
    if text is None:
        return None
    try:
        [address] = parse_bootstrap(text)
    except ValueError as error:
        raise CommandFailed(f"--address: {error}.") from None
    return Address(*address)


def _row(node: Node) -> dict[str, Any]:
    address = None if node.address is None else f"{node.address.host}:{node.address.port}"
    directory = None if node.directory is None else str(node.directory)
    return node._asdict() | {"alive": node.alive, "address": address, "directory": directory}


def _health(quorum: Quorum) -> str:
    """How many more may fail."""
    voters = quorum.voters
    spare = sum(node.alive for node in voters) - majority(len(voters))
    survive = f"{count(spare, 'failure')} can be survived" if spare > 0 else "no failure can be survived"
    return f"{count(len(voters), 'voter')}, epoch {quorum.epoch}: {survive}."
