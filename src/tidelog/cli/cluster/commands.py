"""``tidelog cluster``: the state of the cluster."""

from typing import Any

import typer

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from tidelog.cli.tables import count, print_json, print_table

app = typer.Typer(
    no_args_is_help=True, help="Show the state of the cluster: brokers, leaders and controllers."
)

_NUMBERS = frozenset({"controller", "partition", "leader", "end_offset", "lag"})


@app.command("status")
def status(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Show the brokers, how many partitions each leads, and whether all replicas are in sync.

    A fenced broker keeps its replicas, but they neither lead nor count until it is back and has caught up.

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
    """Show the status, the controllers, and every partition that is offline or under-replicated.

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
        print("\nOffline or under-replicated partitions:\n")
        rows = [row | {"leader": _leader(row["leader"])} for row in found["troubled"]]
        _print(rows, "topic", "partition", "state", "leader", "replicas", "in_sync")
    if found["moves"]:
        print("\nPartitions being reassigned:\n")
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
        problems.append(f"{found['under_replicated']} under-replicated")
    if found["moving"]:
        problems.append(f"{found['moving']} being reassigned")
    if not problems:
        return f"{partitions}, all with a leader and with all replicas in sync."
    return f"{partitions}: {', '.join(problems)}."


def _leader(leader: int) -> int | None:
    return None if leader == cluster_admin.NO_LEADER else leader
