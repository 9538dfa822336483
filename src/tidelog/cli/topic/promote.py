"""``tidelog topic promote``: another primary, on an operator's request.

The first replica of a partition is its primary, so a promotion is a reassignment to the same replicas in
another order (AlterPartitionReassignments, which any Kafka admin client can send). The new primary copies
what others hold before it leads. If replicas that it has to ask are down, it waits; only an unclean election
(ElectLeaders) makes it lead without them.
"""

import time
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import DESCRIBE_CONFIGS, TOPIC_RESOURCE, Cluster, Partition
from tidelog.cli.cluster.controllers import find_controllers, require_controllers, what_next
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, TopicName, flag
from tidelog.cli.tables import count, print_json, print_table
from tidelog.planner.faults import brokers_named
from tidelog.planner.promises import by_hand

LIST_OFFSETS, DESCRIBE_LOG_DIRS = 2, 35
ANY_REPLICA = -2  # as replica id: any replica answers with its own log end offset
LATEST = -1
POLL_S = 0.05
COPIED_WITHIN_S = 30.0
STANDSTILL_S = 1.0
LEADS_WITHIN_S = 15.0


class Copy(NamedTuple):
    """What one replica answered; None if it did not."""

    broker: int
    role: str
    end_offset: int | None
    lacks: int | None  # committed records that it knows of and does not have


def promote(
    topic: TopicName,
    partition: Annotated[
        int, typer.Option("--partition", metavar="N", min=0, help="Number of the partition.")
    ],
    to: Annotated[
        int,
        typer.Option(
            "--to",
            metavar="BROKER",
            help="The replica that becomes primary. Naming the present primary makes it lead with what it "
            "can copy, if it stopped because records are missing.",
        ),
    ],
    yes: Annotated[
        bool,
        flag("--yes", help="Make the change; otherwise only show what would happen and what would be lost."),
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Make another replica of a primary-backup topic the primary.

    Without --yes, shows what every replica holds and what would be lost, and changes nothing. While the old
    primary is up, nothing is lost: the new one first copies what it lacks. If the old primary is down,
    records that only it has are lost; it drops them when it returns.

    Example: tidelog topic promote orders --partition 0 --to 2
    """
    with ClusterClient(bootstrap) as client:
        cluster = cluster_admin.look(client)
        found = _find(cluster, topic, partition)
        _check(client, cluster, found, to)
        copies = _copies(client, cluster, found)
        if not yes:
            _show(found, copies, to, as_json=json)
            if not json:
                print(what_next(find_controllers(client), "promote"))
            return
        require_controllers(client)
        forced = _promote(client, found, to)
        _report(client, found, to, copies, forced=forced, as_json=json)


def _find(cluster: Cluster, topic: str, number: int) -> Partition:
    for each in cluster.of([topic]):
        if each.partition == number:
            return each
    raise CommandFailed(f"Topic '{topic}' has no partition {number}.")


def _check(client: ClusterClient, cluster: Cluster, partition: Partition, to: int) -> None:
    resource = {
        "resource_type": TOPIC_RESOURCE,
        "resource_name": partition.topic,
        "configuration_keys": ["replication.mode"],
    }
    response = client.ask(None, DESCRIBE_CONFIGS, {"resources": [resource]})
    mode = next((config.value for result in response.results for config in result.configs), None)
    if by_hand(mode) != "promote":
        raise CommandFailed(
            f"Topic '{partition.topic}' has mode {mode}, where leaders are elected; use "
            "`tidelog topic elect`."
        )
    if to not in partition.replicas:
        replicas = ", ".join(map(str, partition.replicas))
        raise CommandFailed(
            f"Broker {to} has no replica of {partition.topic}-{partition.partition}; "
            f"these brokers do: {replicas}."
        )
    if cluster.brokers[to].fenced:
        raise CommandFailed(f"Broker {to} is fenced; start it first.")
    if partition.leader == to:
        raise CommandFailed(f"Broker {to} is already the primary and leads.")


# --- what there is ------------------------------------------------------------------------------------------


def _copies(client: ClusterClient, cluster: Cluster, partition: Partition) -> list[Copy]:
    return [
        _copy(client, cluster, partition, replica, "primary" if place == 0 else "backup")
        for place, replica in enumerate(partition.replicas)
    ]


def _copy(client: ClusterClient, cluster: Cluster, partition: Partition, replica: int, role: str) -> Copy:
    if cluster.brokers[replica].fenced:
        return Copy(replica, f"{role}, fenced", None, None)
    address = cluster.brokers[replica].address
    body = {
        "replica_id": ANY_REPLICA,
        "isolation_level": 0,
        "topics": [
            {
                "name": partition.topic,
                "partitions": [
                    {
                        "partition_index": partition.partition,
                        "current_leader_epoch": -1,
                        "timestamp": LATEST,
                    }
                ],
            }
        ],
    }
    try:
        (response,) = client.ask(address, LIST_OFFSETS, body).topics[0].partitions
        lacks = _lacks(client.ask(address, DESCRIBE_LOG_DIRS, {"topics": None}), partition)
    except CommandFailed:
        return Copy(replica, f"{role}, does not answer", None, None)
    return Copy(replica, role, None if response.error_code else response.offset, lacks)


def _lacks(response: Any, partition: Partition) -> int | None:
    return next(
        (
            each.offset_lag
            for result in response.results
            for topic in result.topics
            for each in topic.partitions
            if (topic.name, each.partition_index) == partition.name
        ),
        None,
    )


def _unheard(copies: Sequence[Copy]) -> list[int]:
    """Brokers whose log end is unknown."""
    return [copy.broker for copy in copies if copy.end_offset is None]


def _known_to_lack(copies: Sequence[Copy], to: int) -> int:
    best = max((copy.end_offset or 0 for copy in copies), default=0)
    own = next(copy for copy in copies if copy.broker == to)
    return max((own.lacks or 0) - (best - (own.end_offset or 0)), 0)


def _at_least(known: int) -> str:
    return f"at least {count(known, 'committed record')}, " if known else ""


def _show(partition: Partition, copies: Sequence[Copy], to: int, *, as_json: bool) -> None:
    known, unheard = _known_to_lack(copies, to), _unheard(copies)
    rows = [copy._asdict() for copy in copies]
    if as_json:
        print_json({"executed": False, "copies": rows, "unheard": unheard, "lost_at_least": known})
        return
    columns = {"broker": "broker", "role": "role", "end_offset": "holds up to", "lacks": "lacks at least"}
    print_table(rows, columns, right=("broker", "end_offset", "lacks"))
    name = f"{partition.topic}-{partition.partition}"
    best = max(copy.end_offset or 0 for copy in copies)
    print(f"\nBroker {to} would become the primary of {name} and hold everything up to offset {best}.")
    if unheard:
        who, have = brokers_named(unheard), "has" if len(unheard) == 1 else "have"
        print(
            f"Records that only {who} {have} would be lost: {_at_least(known)}the exact number is unknown.\n"
            f"Start {who} first if you can."
        )
    else:
        print(
            "Nothing would be lost: all replicas answer. If two of them have different histories,\n"
            f"that of broker {to} would be kept."
        )


# --- doing it -----------------------------------------------------------------------------------------------


def _promote(client: ClusterClient, partition: Partition, to: int) -> bool:
    """Whether it had to be forced."""
    name = partition.name
    order = [to, *(replica for replica in partition.replicas if replica != to)]
    if order != partition.replicas:
        outcome = cluster_admin.reassign(client, {name: order})[name]
        if not outcome.done:
            raise CommandFailed(f"{outcome.words or outcome.error} ({outcome.error}).", outcome.error)
        # With a leader, everything can be copied. Without one, a replica is missing, and the operator has
        # decided not to wait for it.
        if _leads(client, partition, to, STANDSTILL_S if partition.leader < 0 else COPIED_WITHIN_S):
            return False
    outcome = cluster_admin.elect(client, [name], unclean=True)[name]
    if not outcome.done:
        raise CommandFailed(f"{outcome.words or outcome.error} ({outcome.error}).", outcome.error)
    if not _leads(client, partition, to, LEADS_WITHIN_S):
        raise CommandFailed(
            f"Broker {to} was made primary of {partition.topic}-{partition.partition} but does not lead yet; "
            "see its log."
        )
    return True


def _leads(client: ClusterClient, partition: Partition, to: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while True:
        cluster = cluster_admin.look(client)
        if _find(cluster, partition.topic, partition.partition).leader == to:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)


def _report(
    client: ClusterClient,
    partition: Partition,
    to: int,
    copies: Sequence[Copy],
    *,
    forced: bool,
    as_json: bool,
) -> None:
    after = _copy(client, cluster_admin.look(client), partition, to, "primary")
    known, unheard = _known_to_lack(copies, to), _unheard(copies)
    if as_json:
        rows = {"unheard": unheard, "lost_at_least": known if forced else 0}
        print_json({"executed": True, "forced": forced, "primary": after._asdict(), **rows})
        return
    name = f"{partition.topic}-{partition.partition}"
    print(f"Broker {to} is the primary of {name} and holds everything up to offset {after.end_offset}.")
    if not forced:
        print("Nothing was lost.")
    elif unheard:
        print(
            f"Lost: records that only {brokers_named(unheard)} had; {_at_least(known)}the exact number is "
            "unknown.\nWhen a broker returns, its log says how many it drops."
        )
    else:
        print("Records of other replicas that it could not copy are lost; their logs say how many.")
