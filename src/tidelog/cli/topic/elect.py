"""``tidelog topic elect``: leader election on request."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import NO_LEADER, Cluster, Name, Outcome, Partition
from tidelog.cli.cluster.controllers import Controllers, require_active, what_next
from tidelog.cli.cluster.health import survey
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, TopicName, flag
from tidelog.cli.tables import count, print_json, print_table
from tidelog.cli.topic.recover import check_no_voters_change, topic_mode
from tidelog.planner.promises import by_hand

DESCRIBE_LOG_DIRS = 35
NOT_NEEDED = "ELECTION_NOT_NEEDED"
NO_CANDIDATE = (
    "No replica that could lead is up, so none can be elected; `tidelog cluster status` says what to start."
)


def elect(
    topic: TopicName,
    partitions: Annotated[
        list[int],
        typer.Option("--partition", metavar="N", help="Only this partition; may be repeated."),
    ] = [],  # noqa: B006 — typer reads the default and never changes it
    unclean: Annotated[
        bool,
        flag(
            "--unclean",
            help="For partitions without a leader: elect any replica that is up. What it lacks is lost.",
        ),
    ] = False,
    execute: Annotated[
        bool,
        flag(
            "--yes",
            "--execute",
            help="With --unclean: make the change; otherwise only show what would be lost.",
        ),
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Make the first replica of each partition its leader again, if it is in sync.

    With --unclean, elect a leader for partitions whose complete replicas are all down. Use it only if these
    will not come back: a replica that returns drops the records that the new leader lacks.

    Example: tidelog topic elect orders
    """
    with ClusterClient(bootstrap) as client:
        found = survey(client)
        cluster = _without(found.cluster, found.down)
        wanted = _wanted(cluster, topic, partitions)
        if unclean:
            _check_mode(client, topic, wanted)
        if not unclean or execute:
            require_active(found.controllers)
        if unclean:
            _elect_unclean(client, cluster, wanted, found.controllers, execute=execute, as_json=json)
        else:
            _elect_preferred(client, wanted, as_json=json)


def _without(cluster: Cluster, down: frozenset[int]) -> Cluster:
    """The cluster without brokers that do not answer, whatever the metadata say of them."""
    return cluster._replace(
        brokers={key: each for key, each in cluster.brokers.items() if key not in down},
        partitions=[
            each._replace(leader=NO_LEADER) if each.leader in down else each for each in cluster.partitions
        ],
    )


def _check_mode(client: ClusterClient, topic: str, wanted: Sequence[Partition]) -> None:
    """A backup in the in-sync set may lack records, and a quorum is recovered from its longest log."""
    check_no_voters_change(client, topic, [each.partition for each in wanted if each.leader == NO_LEADER])
    mode = topic_mode(client, topic)
    if (other := by_hand(mode)) != "elect --unclean":
        raise CommandFailed(f"Topic '{topic}' has mode {mode}; use `tidelog topic {other}`.")


def _wanted(cluster: Cluster, topic: str, numbers: Sequence[int]) -> list[Partition]:
    found = cluster.of([topic])
    known = {each.partition for each in found}
    for number in numbers:
        if number not in known:
            raise CommandFailed(f"Topic '{topic}' has no partition {number}.")
    return [each for each in found if not numbers or each.partition in numbers]


def _elect_preferred(client: ClusterClient, wanted: Sequence[Partition], *, as_json: bool) -> None:
    outcomes = cluster_admin.elect(client, [each.name for each in wanted])
    _report(client, wanted, outcomes, as_json=as_json)
    refused = [
        (name, outcome)
        for name, outcome in outcomes.items()
        if not outcome.done and outcome.error != NOT_NEEDED
    ]
    if refused:
        (topic, partition), outcome = refused[0]
        raise CommandFailed(f"{topic}-{partition}: {outcome.words} ({outcome.error}).", outcome.error)


def _elect_unclean(
    client: ClusterClient,
    cluster: Cluster,
    wanted: Sequence[Partition],
    controllers: Controllers,
    *,
    execute: bool,
    as_json: bool,
) -> None:
    leaderless = [each for each in wanted if each.leader == NO_LEADER]
    if not leaderless:
        print("Every partition has a leader; nothing to do." if not as_json else "[]")
        return
    if not execute:
        possible = _show_candidates(client, cluster, leaderless, as_json=as_json)
        if not as_json:
            print(what_next(controllers, "elect") if possible else NO_CANDIDATE)
        return
    outcomes = cluster_admin.elect(client, [each.name for each in leaderless], unclean=True)
    _report(client, leaderless, outcomes, as_json=as_json)
    refused = {name: outcome for name, outcome in outcomes.items() if not outcome.done}
    for (topic, partition), outcome in refused.items():
        raise CommandFailed(f"{topic}-{partition}: {outcome.words} ({outcome.error}).", outcome.error)


def _show_candidates(
    client: ClusterClient, cluster: Cluster, leaderless: Sequence[Partition], *, as_json: bool
) -> bool:
    """What is known about the replicas that are up, and whether there are any. The records they lack are
    known only up to what they heard of before the leader was lost.
    """
    rows = []
    lags = _lags(client, cluster)
    for each in leaderless:
        there = [broker for broker in each.replicas if each.name in lags.get(broker, {})]
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                "complete": each.in_sync,
                "there": there,
                "lack": [lags[broker][each.name] for broker in there],
            }
        )
    if as_json:
        print_json(rows)
        return True
    print_table(
        rows,
        {
            "topic": "topic",
            "partition": "partition",
            "complete": "known to be complete",
            "there": "could lead",
            "lack": "lack at least",
        },
        right=("partition",),
    )
    print(
        "\nAn unclean election loses every record that only the replicas known to be complete hold. Start one"
        "\nof them first if you can."
    )
    return any(row["there"] for row in rows)


def _lags(client: ClusterClient, cluster: Cluster) -> dict[int, dict[Name, int]]:
    """By how many records each replica on the brokers that are up is known to lag."""
    found: dict[int, dict[Name, int]] = {}
    for broker in cluster.unfenced:
        try:
            response = client.ask(broker.address, DESCRIBE_LOG_DIRS, {"topics": None})
        except CommandFailed:
            continue  # It has failed since.
        found[broker.broker] = {
            (topic.name, each.partition_index): each.offset_lag
            for result in response.results
            for topic in result.topics
            for each in topic.partitions
        }
    return found


def _report(
    client: ClusterClient, before: Sequence[Partition], outcomes: Mapping[Name, Outcome], *, as_json: bool
) -> None:
    after = {each.name: each.leader for each in cluster_admin.look(client).partitions}
    rows: list[dict[str, Any]] = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "before": None if each.leader == NO_LEADER else each.leader,
            "leader": None if after.get(each.name, NO_LEADER) == NO_LEADER else after[each.name],
            "error": None if outcomes[each.name].done else outcomes[each.name].error,
        }
        for each in before
    ]
    if as_json:
        print_json(rows)
        return
    changed = [row for row in rows if row["error"] is None]
    if changed:
        columns = ("topic", "partition", "before", "leader")
        print_table(changed, {name: name for name in columns}, right=("partition", "before", "leader"))
        print()
    print(f"{count(len(changed), 'partition')} got a new leader.")
