"""``tidelog topic reassign``: move replicas to other brokers, or spread them evenly."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import BROKER_RESOURCE, TOPIC_RESOURCE, Cluster, Name, Outcome
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
SILENCE_S_MAX = 10.0  # An election of controllers takes a second or two.
PROGRESS = "`tidelog topic reassign … --watch` shows its progress again, and --cancel ends it"


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
    _check_throttle(throttle, allowed=execute and watch)
    if bool(topics) == every:
        raise InvalidCommandLine("Name the topics to move, or pass --all.")
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
            _watch(bootstrap, names)
            print(_complete(names))
            return
        moves = plan(cluster.of(topics), _racks(cluster, to), replicas, cluster.fenced if to is None else ())
        if not json:
            _show_promises(bootstrap, moves)
            _show(moves, executed=execute)
        executed = execute and bool(moves)
        if executed:
            _execute(bootstrap, client, moves, topics, throttle, watch=watch)
    if json:
        print_json({"executed": executed, "partitions": _rows(moves)})
    elif executed:
        print(
            _complete(moves) if watch else "Started; `tidelog topic reassign … --watch` shows the progress."
        )


def _complete(partitions: Sequence[object]) -> str:
    return f"Reassignment complete: {count(len(partitions), 'partition')}."


def _check_throttle(throttle: int | None, *, allowed: bool) -> None:
    if throttle is not None and not allowed:
        raise InvalidCommandLine(
            "--throttle needs --yes and --watch: the limit is removed when the reassignment is complete."
        )
    if throttle is not None and throttle < 1:
        raise InvalidCommandLine("--throttle must be at least 1 byte per second.")


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


def _rows(moves: Sequence[Move]) -> list[dict[str, Any]]:
    return [move._asdict() | {"copies": len(move.copied)} for move in moves]


def _show(moves: Sequence[Move], *, executed: bool) -> None:
    if not moves:
        print("All replicas are already in place; nothing to move.")
        return
    columns = ("topic", "partition", "before", "after", "copies")
    print_table(_rows(moves), {name: name for name in columns}, right=("partition", "copies"))
    copies = sum(len(move.copied) for move in moves)
    print(f"\n{count(len(moves), 'partition')} with {copies} new {'copy' if copies == 1 else 'copies'}.")
    if not executed:
        print("Nothing was changed; pass --yes to reassign.")


def _execute(
    bootstrap: str,
    client: ClusterClient,
    moves: Sequence[Move],
    topics: Iterable[str],
    throttle: int | None,
    *,
    watch: bool,
) -> None:
    names = [(move.topic, move.partition) for move in moves]
    with _limit(bootstrap, client, topics, throttle) if throttle is not None else nullcontext():
        outcomes = cluster_admin.reassign(
            client, {(move.topic, move.partition): move.after for move in moves}
        )
        _fail_if_refused(outcomes)
        if watch:
            _watch(bootstrap, names)


@contextmanager
def _limit(bootstrap: str, client: ClusterClient, topics: Iterable[str], throttle: int) -> Iterator[None]:
    try:
        cluster_admin.alter_setting(client, BROKER_RESOURCE, ALL_BROKERS, THROTTLED_RATE, str(throttle))
        for topic in topics:
            cluster_admin.alter_setting(client, TOPIC_RESOURCE, topic, THROTTLED_REPLICAS, "*")
        yield
    finally:
        try:
            with ClusterClient(bootstrap) as another:  # The broker that was asked may have died since.
                for topic in topics:
                    cluster_admin.alter_setting(another, TOPIC_RESOURCE, topic, THROTTLED_REPLICAS, None)
                cluster_admin.alter_setting(another, BROKER_RESOURCE, ALL_BROKERS, THROTTLED_RATE, None)
        except CommandFailed as failure:
            complain(
                f"The limit of {throttle} bytes per second stays ({str(failure).rstrip('.')}). "
                f"To remove it: `tidelog config unset {THROTTLED_RATE}`, and for each topic "
                f"`tidelog topic alter TOPIC --unset {THROTTLED_REPLICAS}`."
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


def _watch(bootstrap: str, names: Sequence[Name]) -> None:
    """Until the reassignment is complete; then the first replicas become leaders, as planned."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    wanted = set(names)
    columns = (TextColumn("moving"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("moving", total=len(wanted))
        try:
            for left in _left(bootstrap, wanted):
                progress.update(task, completed=len(wanted) - left)
        except KeyboardInterrupt:
            complain(f"The reassignment goes on; {PROGRESS}.")
            raise
    with ClusterClient(bootstrap) as client:
        cluster_admin.elect(client, names)


def _left(bootstrap: str, wanted: set[Name]) -> Iterator[int]:
    """How many partitions still move, again and again. A broker or a controller may die meanwhile."""
    heard_s = time.monotonic()
    while True:
        try:
            with ClusterClient(bootstrap) as client:
                while left := wanted.intersection(each.name for each in cluster_admin.moving(client)):
                    heard_s = time.monotonic()
                    yield len(left)
                    time.sleep(POLL_S)
                return
        except CommandFailed as failure:
            if time.monotonic() - heard_s > SILENCE_S_MAX:
                raise CommandFailed(
                    f"{failure} What was started goes on when the controllers decide again; {PROGRESS}."
                ) from None
        time.sleep(POLL_S)
