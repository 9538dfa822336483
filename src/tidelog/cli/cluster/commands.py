"""``tidelog cluster``: the state of the cluster."""

import sys
import time
from typing import Annotated, Any

import typer

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster import report
from tidelog.cli.cluster.health import EXIT_CODES, HEALTHY, UNAVAILABLE, Survey, as_json, causes, survey
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, flag
from tidelog.cli.tables import count, print_json, print_table
from tidelog.cli.units import Duration

app = typer.Typer(
    no_args_is_help=True, help="Show the state of the cluster: brokers, leaders and controllers."
)

WAIT_S = 60.0
POLL_S = 0.3
TELL_AFTER_S = 2.0
_NUMBERS = frozenset({"controller", "partition", "leader", "end_offset", "lag"})


@app.command("status")
def status(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """Show the brokers, how many partitions each leads, what is wrong, and what to do about it.

    States of a broker: up; drained (leads nothing on request); fenced (the controllers do not count it until
    it is back and has caught up); down (accepts no connection); not answering (accepts connections: it
    starts, is frozen or overloaded); disk failed (up, but cannot write).

    Example: tidelog cluster status
    """
    with ClusterClient(bootstrap) as client:
        found = report.status(client)
    if json:
        print_json(found)
        return
    _print_status(found)


@app.command("health")
def health_(
    wait: Annotated[bool, flag("--wait", help="Wait until the cluster is healthy.")] = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="TIME", parser=Duration(), help="With --wait: how long, such as 90s or 5m."
        ),
    ] = WAIT_S,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Say whether the cluster is healthy; for scripts and probes, by the exit code.

    0: healthy; every broker is up and every replica in sync. 3: degraded; all partitions can be read and
    written, but with less redundancy. 4: unavailable; some partitions cannot be written, or no majority of
    the controllers decides. 1: no broker answers.

    Example: tidelog cluster health --wait --timeout 2m
    """
    found = _await_health(bootstrap, timeout if wait else 0.0)
    if json:
        print_json(as_json(found))
    else:
        print(health_line(found))
        for sentence in causes(found):
            print(f"- {sentence}")
    raise typer.Exit(EXIT_CODES[found.level])


def _await_health(bootstrap: str, timeout_s: float) -> Survey:
    start_s = time.monotonic()
    deadline, told = start_s + timeout_s, ""
    while True:
        try:
            with ClusterClient(bootstrap) as client:
                found = survey(client)
            if found.level == HEALTHY or time.monotonic() >= deadline:
                return found
            why = health_line(found)
        except CommandFailed as failure:
            if time.monotonic() >= deadline:
                raise
            why = str(failure)
        if why != told and time.monotonic() - start_s > TELL_AFTER_S:
            told = why
            print(f"tidelog: waiting. {why}", file=sys.stderr, flush=True)
        time.sleep(POLL_S)


def health_line(found: Survey) -> str:
    if found.level == HEALTHY:
        brokers = count(len(found.cluster.brokers), "broker")
        return f"Healthy: {brokers}, {count(len(found.cluster.partitions), 'partition')}, all in sync."
    what = "everything works, with less redundancy"
    if found.level == UNAVAILABLE:
        what = "some writes fail"
        if not found.offline and not found.below_minimum:
            what = "writes and reads go on, but nothing can be changed, and no leader replaced"
    return f"{found.level.capitalize()}: {what}."


@app.command("describe")
def describe(
    internal: Annotated[
        bool, flag("--internal", help="Also list partitions of internal topics (__…).")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the status, the controllers, and every partition that is offline or under-replicated.

    Offline: it has no leader. Below minimum: writes with acks=all are refused. Under-replicated: a replica is
    not in sync.

    Example: tidelog cluster describe --json
    """
    with ClusterClient(bootstrap) as client:
        found = report.describe(client, internal=internal or json)
    if json:
        print_json(found)
        return
    _print_status(found)
    if found["quorum"] is not None:
        print(f"\nControllers, epoch {found['quorum']['epoch']}:\n")
        _print(found["quorum"]["controllers"], "controller", "role", "end_offset", "lag")
    if found["troubled"]:
        print("\nOffline or under-replicated partitions:\n")
        rows = [row | {"leader": _leader(row["leader"])} for row in found["troubled"]]
        _print(rows, "topic", "partition", "state", "leader", "replicas", "in_sync")
    if found["troubled_internal"] and not internal:
        more = count(found["troubled_internal"], "partition")
        print(f"\nAlso {more} of internal topics; --internal lists them.")
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
    for sentence in found["causes"]:
        print(f"- {sentence}")


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
