"""``tidelog cluster``: how the cluster is."""

from typing import Any

import typer

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from tidelog.cli.tables import count, print_json, print_table

app = typer.Typer(no_args_is_help=True, help="See how the cluster is: its brokers, leaders and controllers.")

_NUMBERS = frozenset({"controller", "partition", "leader", "end_offset", "lag"})


@app.command("status")
def status(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Show the brokers, who leads how much, and whether every partition has all its copies.

    A broker that is away holds its replicas, but neither leads nor counts until it is back and has caught up.

    Example: tidelog cluster status
    """
    with ClusterClient(bootstrap) as client:
        found = cluster_admin.status(client)
    if json:
        print_json(found)
        return
    _print_status(found)


@app.command("describe")
def describe(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Show the same, the controllers, and every partition that is not as it should be.

    Example: tidelog cluster describe --json
    """
    with ClusterClient(bootstrap) as client:
        found = cluster_admin.describe(client)
    if json:
        print_json(found)
        return
    _print_status(found)
    print(f"\nControllers, epoch {found['quorum']['epoch']}:\n")
    _print(found["quorum"]["controllers"], "controller", "role", "end_offset", "lag")
    if found["troubled"]:
        print("\nPartitions that are not as they should be:\n")
        rows = [row | {"leader": _leader(row["leader"])} for row in found["troubled"]]
        _print(rows, "topic", "partition", "state", "leader", "replicas", "in_sync")
    if found["moves"]:
        print("\nPartitions on the move:\n")
        _print(found["moves"], "topic", "partition", "replicas", "adding", "removing")


def _print_status(found: dict[str, Any]) -> None:
    controller = found["controller"]
    who = "no active controller" if controller is None else f"controller {controller}"
    print(f"Cluster {found['cluster']}: {count(len(found['brokers']), 'broker')}, {who}\n")
    columns = ("broker", "address", "rack", "state", "leads", "replicas", "in_sync")
    print_table(
        found["brokers"],
        {name: name.replace("_", " ") for name in columns},
        right=("broker", "leads", "replicas", "in_sync"),
    )
    print(f"\n{health(found)}")


def _print(rows: list[dict[str, Any]], *columns: str) -> None:
    headings = {name: name.replace("_", " ") for name in columns}
    print_table(rows, headings, right=_NUMBERS.intersection(columns))


def health(found: dict[str, Any]) -> str:
    """The partitions in one sentence."""
    partitions = count(found["partitions"], "partition")
    problems = []
    if found["offline"]:
        problems.append(f"{found['offline']} without a leader")
    if found["under_replicated"]:
        problems.append(f"{found['under_replicated']} with fewer copies in sync than they should have")
    if found["moving"]:
        problems.append(f"{found['moving']} on the move")
    if not problems:
        return f"{partitions}, all led and with all copies in sync."
    return f"{partitions}: {', '.join(problems)}."


def _leader(leader: int) -> int | None:
    return None if leader == cluster_admin.NOBODY else leader
