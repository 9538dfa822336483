"""``tidelog topic promote``: another primary, by an operator's word.

The order of a partition's replicas says who its primary is, so a promotion is a reassignment to the same
replicas in another order (AlterPartitionReassignments, which any Kafka admin client can send). The new
primary copies what others hold before it leads. Where those who would have to be asked are away, it waits;
only an unclean election (ElectLeaders) makes it lead without them.
"""

import time
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import DESCRIBE_CONFIGS, TOPIC_RESOURCE, Cluster, Partition
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, TopicName, flag
from tidelog.cli.tables import count, print_json, print_table

LIST_OFFSETS, DESCRIBE_LOG_DIRS = 2, 35
ANY_REPLICA = -2  # as the asker's id: whoever has the log shall answer, how far it goes
LATEST = -1
POLL_S = 0.05
COPIED_WITHIN_S = 30.0
STANDSTILL_S = 1.0
LEADS_WITHIN_S = 15.0


class Copy(NamedTuple):
    """One replica as it answers; None where it does not."""

    broker: int
    role: str
    end_offset: int | None
    lacks: int | None  # confirmed records that it has heard of and does not have


def promote(
    topic: TopicName,
    partition: Annotated[int, typer.Option("--partition", metavar="N", min=0, help="Which partition.")],
    to: Annotated[
        int,
        typer.Option(
            "--to",
            metavar="BROKER",
            help="Which of its replicas is the primary from then on. The present one: it leads with what it "
            "can get, if it stopped for something that it cannot get.",
        ),
    ],
    yes: Annotated[
        bool, flag("--yes", help="Do it; without this, only show what would be, and what would be lost.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Make another replica of a primary-backup topic the primary.

    Shows what every replica holds and what would be lost, and changes nothing, unless --yes is given. While
    the old primary is there nothing is lost: the new one first copies what it lacks. If it is away, what only
    it has is given up; it drops that when it returns.

    Example: tidelog topic promote orders --partition 0 --to 2
    """
    with ClusterClient(bootstrap) as client:
        cluster = cluster_admin.look(client)
        found = _find(cluster, topic, partition)
        _check(client, cluster, found, to)
        copies = _copies(client, cluster, found)
        if not yes:
            _show(found, copies, to, as_json=json)
            return
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
    answer = client.ask(None, DESCRIBE_CONFIGS, {"resources": [resource]})
    mode = next((config.value for result in answer.results for config in result.configs), None)
    if mode != "primary-backup":
        raise CommandFailed(
            f"Topic '{partition.topic}' is replicated by {mode}, where leaders are found without you; "
            "`tidelog topic elect` moves them."
        )
    if to not in partition.replicas:
        replicas = ", ".join(map(str, partition.replicas))
        raise CommandFailed(
            f"Broker {to} has no copy of {partition.topic}-{partition.partition}; these have: {replicas}."
        )
    if cluster.brokers[to].fenced:
        raise CommandFailed(f"Broker {to} does not serve at present; nothing could be written there.")
    if partition.leader == to:
        raise CommandFailed(f"Broker {to} is the primary and leads already.")


# --- what there is ------------------------------------------------------------------------------------------


def _copies(client: ClusterClient, cluster: Cluster, partition: Partition) -> list[Copy]:
    return [
        _copy(client, cluster, partition, replica, "primary" if place == 0 else "backup")
        for place, replica in enumerate(partition.replicas)
    ]


def _copy(client: ClusterClient, cluster: Cluster, partition: Partition, replica: int, role: str) -> Copy:
    if cluster.brokers[replica].fenced:
        return Copy(replica, f"{role}, away", None, None)
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
        (answer,) = client.ask(address, LIST_OFFSETS, body).topics[0].partitions
        lacks = _lacks(client.ask(address, DESCRIBE_LOG_DIRS, {"topics": None}), partition)
    except CommandFailed:
        return Copy(replica, f"{role}, does not answer", None, None)
    return Copy(replica, role, None if answer.error_code else answer.offset, lacks)


def _lacks(answer: Any, partition: Partition) -> int | None:
    return next(
        (
            each.offset_lag
            for result in answer.results
            for topic in result.topics
            for each in topic.partitions
            if (topic.name, each.partition_index) == partition.name
        ),
        None,
    )


def _unheard(copies: Sequence[Copy]) -> list[int]:
    """Who may have more than anybody knows."""
    return [copy.broker for copy in copies if copy.end_offset is None]


def _known_to_lack(copies: Sequence[Copy], to: int) -> int:
    best = max((copy.end_offset or 0 for copy in copies), default=0)
    own = next(copy for copy in copies if copy.broker == to)
    return max((own.lacks or 0) - (best - (own.end_offset or 0)), 0)


def _at_least(known: int) -> str:
    return f", at least {count(known, 'confirmed record')}" if known else ""


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
    print(f"\nBroker {to} would be the primary of {name}, and hold everything up to offset {best}.")
    if unheard:
        print(
            f"What only broker {_names(unheard)} has would be lost: how much nobody can say"
            f"{_at_least(known)}.\nBring it back first if you can."
        )
    else:
        print(
            "Nothing would be lost: every replica can be asked. Where two of them have different histories,\n"
            f"that of broker {to} would be kept."
        )
    print("Nothing was changed; --yes does it.")


def _names(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


# --- doing it -----------------------------------------------------------------------------------------------


def _promote(client: ClusterClient, partition: Partition, to: int) -> bool:
    """Whether it had to be forced."""
    name = partition.name
    order = [to, *(replica for replica in partition.replicas if replica != to)]
    if order != partition.replicas:
        outcome = cluster_admin.reassign(client, {name: order})[name]
        if not outcome.done:
            raise CommandFailed(f"{outcome.words or outcome.error} ({outcome.error}).", outcome.error)
        # While somebody leads, everything is there to be copied. Otherwise somebody is missed, and waiting
        # for that one is what the operator has decided against.
        if _leads(client, partition, to, STANDSTILL_S if partition.leader < 0 else COPIED_WITHIN_S):
            return False
    outcome = cluster_admin.elect(client, [name], unclean=True)[name]
    if not outcome.done:
        raise CommandFailed(f"{outcome.words or outcome.error} ({outcome.error}).", outcome.error)
    if not _leads(client, partition, to, LEADS_WITHIN_S):
        raise CommandFailed(
            f"Broker {to} is told to lead {partition.topic}-{partition.partition}, but does not yet; its log "
            "says why."
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
            f"Lost: what only broker {_names(unheard)} had{_at_least(known)}. "
            "When it returns,\nits log says how many it drops."
        )
    else:
        print("What others had and it could not take over is lost; their logs say how much they drop.")
