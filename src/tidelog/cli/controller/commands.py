"""``tidelog controller``: the voters and observers of the metadata log."""

from typing import Annotated, Any

import typer

from tidelog.cli.cluster.controllers import require_controllers
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.consent import consent
from tidelog.cli.controller import admin as controller_admin
from tidelog.cli.controller.admin import OBSERVER, Node, Quorum
from tidelog.cli.failure import CommandFailed, InvalidCommandLine
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes
from tidelog.cli.reach import Address
from tidelog.cli.tables import count, print_json, print_table
from tidelog.client.settings import parse_bootstrap
from tidelog.planner.faults import listed
from tidelog.types import majority

app = typer.Typer(no_args_is_help=True, help="List, add and remove controllers.")

NodeId = Annotated[
    int, typer.Argument(metavar="NODE", min=0, help="Id of the node (node.id).", show_default=False)
]


@app.command("list")
def list_(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """List the nodes that keep the metadata log.

    The active controller makes decisions. Voters elect it, and a majority must have every decision. Observers
    (all other brokers) only read the log. "lag" is the number of records a node still lacks.

    Example: tidelog controller list
    """
    with ClusterClient(bootstrap) as client:
        require_controllers(client, "The controllers cannot be asked")
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
            help="Address for the other controllers; needed only if the node is not a broker.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Make an observer a voter.

    The node must be running and have caught up. Three voters tolerate one failure, five tolerate two; an even
    number tolerates no more than the odd number below it.

    Example: tidelog controller add 4
    """
    with ClusterClient(bootstrap) as client:
        require_controllers(client)
        controller_admin.add(client, node, _address(address))
        voters = len(controller_admin.look(client).voters)
    print(f"Node {node} is a voter now; the cluster has {count(voters, 'voter')}.")


@app.command("remove")
def remove(node: NodeId, yes: Yes = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Make a voter an observer.

    The node continues as an observer, and as a broker if it is one. If it was the active controller, another
    voter becomes active. Remove a node that will not come back, so that it no longer counts for a majority.
    Shows how many failures the controllers tolerate before and after, and asks if these are fewer.

    Example: tidelog controller remove 2
    """
    with ClusterClient(bootstrap) as client:
        require_controllers(client)
        quorum = controller_admin.look(client)
        rest = quorum._replace(
            nodes=[each._replace(role=OBSERVER) if each.node == node else each for each in quorum.nodes]
        )
        if quorum.find(node) in quorum.voters:
            print(f"before: {_health(quorum)}\nafter:  {_health(rest)}")
            _require_majority(rest)
            if _spare(rest) < _spare(quorum):
                consent("The controllers would tolerate fewer failures.", yes=yes)
        controller_admin.remove(client, node)
    print(f"Node {node} is no longer a voter.")


def _address(text: str | None) -> Address | None:
    if text is None:
        return None
    try:
        [address] = parse_bootstrap(text)
    except ValueError as error:
        raise InvalidCommandLine(f"--address: {error}.") from None
    return Address(*address)


def _row(node: Node) -> dict[str, Any]:
    address = None if node.address is None else f"{node.address.host}:{node.address.port}"
    directory = None if node.directory is None else str(node.directory)
    return node._asdict() | {"alive": node.alive, "address": address, "directory": directory}


def _spare(quorum: Quorum) -> int:
    voters = quorum.voters
    return sum(node.alive for node in voters) - majority(len(voters))


def _require_majority(rest: Quorum) -> None:
    """A removal needs a majority of the voters that stay. Without it, nothing could be changed any more, not
    even back.
    """
    if _spare(rest) < 0:
        silent = [each.node for each in rest.voters if not each.alive]
        one = len(silent) == 1
        raise CommandFailed(
            f"Of the voters that stay, {listed(silent)} {'does' if one else 'do'} not answer the active "
            "controller, and the others are no majority. Nothing was changed; repair "
            f"{listed(silent)} first, or remove {'it' if one else 'them'} instead."
        )


def _health(quorum: Quorum) -> str:
    """How many more voters may fail."""
    voters, spare = quorum.voters, _spare(quorum)
    tolerates = f"tolerates {count(spare, 'failure')}" if spare > 0 else "tolerates no failure"
    if spare < 0:
        tolerates = "no majority answers, so nothing can be changed"
    return f"{count(len(voters), 'voter')}, epoch {quorum.epoch}: {tolerates}."
