"""``tidelog topic reassign``: move replicas to other brokers, or spread them evenly."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import TOPIC_RESOURCE, Cluster, Name, Outcome
from tidelog.cli.cluster.controllers import require_controllers
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed, InvalidCommandLine, complain
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, flag
from tidelog.cli.tables import count, print_json, print_table
from tidelog.cli.topic import admin as topic_admin
from tidelog.cli.topic.promised import agree, terms_of
from tidelog.cli.topic.reassign_plan import Move, plan
from tidelog.cli.units import Size

POLL_S = 0.2
THROTTLED_REPLICAS = "leader.replication.throttled.replicas"
THROTTLED_RATE = "leader.replication.throttled.rate"
ALL_BROKERS = ""


def reassign(
    topics: Annotated[
        list[str], typer.Argument(metavar="[TOPIC…]", help="Names of the topics.", show_default=False)
    ] = [],  # noqa: B006 — typer reads the default and never changes it
    every: Annotated[bool, flag("--all", help="All topics, including Tidelog's internal ones.")] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="ID,ID,…", help="Brokers to move to; default: all brokers that are up."),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option("--replicas", metavar="N", min=1, help="New number of replicas."),
    ] = None,
    execute: Annotated[
        bool, flag("--yes", "--execute", help="Make the change; otherwise only show the plan.")
    ] = False,
    watch: Annotated[
        bool, flag("--watch", help="Wait until the reassignment is complete, and show its progress.")
    ] = False,
    cancel: Annotated[
        bool, flag("--cancel", help="Cancel a running reassignment and return to the previous replicas.")
    ] = False,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle",
            metavar="BYTES",
            parser=Size(),
            help="Bytes per second that each broker sends to new replicas, such as 10MB; needs --watch.",
        ),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Move topics to other brokers, or spread them evenly over all brokers.

    Without --yes, shows the plan and changes nothing; with fewer replicas, also what each topic promises
    before and after. Moves as little as possible. The old replicas are
    removed when every new one is in sync, so there are never fewer copies than before. Writes continue.

    Example: tidelog topic reassign orders --to 2,3,4 --yes --watch
    """
    if throttle is not None and not (execute and watch):
        raise InvalidCommandLine(
            "--throttle needs --yes and --watch: the limit is removed when the reassignment is complete."
        )
    if bool(topics) == every:
        raise InvalidCommandLine("Name the topics to move, or pass --all.")
    if throttle is not None and throttle < 1:
        raise InvalidCommandLine("--throttle must be at least 1 byte per second.")
    with ClusterClient(bootstrap) as client:
        require_controllers(client)
        cluster = cluster_admin.look(client)
        if every:
            topics = list(dict.fromkeys(partition.topic for partition in cluster.partitions))
        names = [partition.name for partition in cluster.of(topics)]
        if cancel:
            _cancel(client, names)
            return
        if watch and not execute:
            _watch(client, names)
            return
        moves = plan(cluster.of(topics), _racks(cluster, to), replicas, cluster.fenced if to is None else ())
        if not json:
            _show_promises(bootstrap, moves)
        _show(moves, executed=execute, as_json=json)
        if execute and moves:
            _execute(client, moves, topics, throttle, watch=watch)
            if not watch and not json:
                print("Started; `tidelog topic reassign … --watch` shows the progress.")


def _show_promises(bootstrap: str, moves: Sequence[Move]) -> None:
    """Where the number of replicas changes. The plan is shown before it is made, which is the question."""
    sizes = {move.topic: (len(move.before), len(move.after)) for move in moves}
    changed = {topic: after for topic, (before, after) in sizes.items() if before != after}
    admin = connect_admin(bootstrap) if changed else None
    for topic, replicas in changed.items():
        before = terms_of(topic_admin.describe(admin, topic)) if admin is not None else None
        if before is not None:
            agree(topic, before, before._replace(replicas=replicas), yes=True)


def _racks(cluster: Cluster, to: str | None) -> dict[int, str | None]:
    if to is None:
        return {broker.broker: broker.rack for broker in cluster.unfenced}
    brokers = {}
    for word in to.split(","):
        if not word.strip().isdecimal():
            raise InvalidCommandLine(f"--to takes broker ids like 1,2,3, but got '{to}'.")
        broker = int(word)
        brokers[broker] = cluster.broker(broker).rack
    return brokers


def _show(moves: Sequence[Move], *, executed: bool, as_json: bool) -> None:
    rows = [move._asdict() | {"copies": len(move.copied)} for move in moves]
    if as_json:
        print_json({"executed": executed and bool(moves), "partitions": rows})
        return
    if not moves:
        print("All replicas are already in place; nothing to move.")
        return
    columns = ("topic", "partition", "before", "after", "copies")
    print_table(rows, {name: name for name in columns}, right=("partition", "copies"))
    copies = sum(len(move.copied) for move in moves)
    print(f"\n{count(len(moves), 'partition')} with {copies} new {'copy' if copies == 1 else 'copies'}.")
    if not executed:
        print("Nothing was changed; pass --yes to reassign.")


def _execute(
    client: ClusterClient, moves: Sequence[Move], topics: Iterable[str], throttle: int | None, *, watch: bool
) -> None:
    names = [(move.topic, move.partition) for move in moves]
    if throttle is not None:
        cluster_admin.alter_setting(
            client, cluster_admin.BROKER_RESOURCE, ALL_BROKERS, THROTTLED_RATE, str(throttle)
        )
    try:
        for topic in topics if throttle is not None else ():
            cluster_admin.alter_setting(client, TOPIC_RESOURCE, topic, THROTTLED_REPLICAS, "*")
        outcomes = cluster_admin.reassign(
            client, {(move.topic, move.partition): move.after for move in moves}
        )
        _fail_if_refused(outcomes)
        if watch:
            _watch(client, names)
    finally:
        for topic in topics if throttle is not None else ():
            cluster_admin.alter_setting(client, TOPIC_RESOURCE, topic, THROTTLED_REPLICAS, None)
        if throttle is not None:
            cluster_admin.alter_setting(
                client, cluster_admin.BROKER_RESOURCE, ALL_BROKERS, THROTTLED_RATE, None
            )


def _cancel(client: ClusterClient, names: Sequence[Name]) -> None:
    wanted = set(names)
    under_way = [(each.topic, each.partition) for each in cluster_admin.moving(client)]
    targets: Mapping[Name, list[int] | None] = dict.fromkeys(name for name in under_way if name in wanted)
    if not targets:
        print("No reassignment is running.")
        return
    _fail_if_refused(cluster_admin.reassign(client, targets))
    print(f"Cancelled: {count(len(targets), 'partition')} returned to the previous replicas.")


def _fail_if_refused(outcomes: Mapping[Name, Outcome]) -> None:
    refused = [(name, outcome) for name, outcome in outcomes.items() if not outcome.done]
    if refused:
        (topic, partition), outcome = refused[0]
        more = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
        raise CommandFailed(
            f"{topic}-{partition}{more}: {outcome.words or outcome.error} ({outcome.error}).", outcome.error
        )


def _watch(client: ClusterClient, names: Sequence[Name]) -> None:
    """Until the reassignment is complete; then the first replicas become leaders, as planned."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    wanted = set(names)
    columns = (TextColumn("moving"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("moving", total=len(wanted))
        try:
            while left := wanted & {(each.topic, each.partition) for each in cluster_admin.moving(client)}:
                progress.update(task, completed=len(wanted) - len(left))
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            complain("The reassignment goes on; --watch shows its progress again, and --cancel ends it.")
            raise
    cluster_admin.elect(client, names)
    print(f"Reassignment complete: {count(len(wanted), 'partition')}.")
