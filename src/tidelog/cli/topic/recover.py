"""``tidelog topic recover``: a quorum partition that lost its majority continues with the longest log.

An unclean election takes the first replica. So this is a reassignment to the same replicas with the longest
log first (AlterPartitionReassignments), then ElectLeaders. Both are Kafka's own requests.
The controllers refuse while a majority can vote.
"""

import time
from collections.abc import Collection, Sequence
from typing import Annotated, NamedTuple

import msgspec
import typer

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import DESCRIBE_CONFIGS, TOPIC_RESOURCE, Cluster, Outcome, Partition
from tidelog.cli.cluster.controllers import find_controllers, require_controllers, what_next
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, TopicName, flag
from tidelog.cli.tables import print_json, print_table
from tidelog.config.topic import MODE_CHANGE, REPLICATION_MODE
from tidelog.planner.faults import brokers_named
from tidelog.planner.promises import by_hand

LIST_OFFSETS = 2
ANY_REPLICA = -2  # as replica id: any replica answers with its own log end offset
LATEST = -1
POLL_S = 0.05
LEADS_WITHIN_S = 15.0


class Copy(NamedTuple):
    """What one replica answered; None if it did not."""

    broker: int
    remembers: bool  # whether it holds everything it acknowledged
    last_epoch: int | None
    end_offset: int | None

    @property
    def length(self) -> tuple[int, int]:
        """A log with a later epoch is more complete than a longer one with an earlier epoch."""
        return self.last_epoch or 0, self.end_offset or 0


def recover(
    topic: TopicName,
    partition: Annotated[
        int, typer.Option("--partition", metavar="N", min=0, help="Number of the partition.")
    ],
    unsafe: Annotated[
        bool,
        flag("--unsafe", help="Required: acknowledged records may be lost, and their number is unknown."),
    ] = False,
    yes: Annotated[
        bool, flag("--yes", help="Make the change; otherwise only show what would happen.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Recover a quorum partition whose majority is lost for good, with the longest log that is left.

    For a partition without a leader, most of whose replicas are gone, came back empty or dropped damaged
    records. Without --yes, shows what every replica holds and changes nothing. The reachable replica with the
    longest log becomes leader, and the others copy its log. Records that only the others held are lost.
    Refused while a majority can vote.

    Example: tidelog topic recover orders --partition 0 --unsafe
    """
    with ClusterClient(bootstrap) as client:
        cluster = cluster_admin.look(client)
        found = _find(cluster, topic, partition)
        _check(client, found, unsafe=unsafe)
        if yes:
            require_controllers(client)
        copies = [_copy(client, cluster, found, replica) for replica in found.replicas]
        if not yes and _can_elect(found, copies) and not _is_moving(client, found):
            raise CommandFailed(f"{topic}-{partition} has a leader or can elect one; nothing to recover.")
        there = [copy for copy in copies if copy.end_offset is not None]
        if not there:
            raise CommandFailed(f"No replica of {topic}-{partition} can be reached.")
        longest = max(there, key=lambda copy: (copy.length, copy.remembers))
        if yes:
            _force(client, found, longest.broker)
        _report(found, copies, longest, done=yes, as_json=json)
        if not yes and not json:
            print(what_next(find_controllers(client), "recover"))


def _find(cluster: Cluster, topic: str, number: int) -> Partition:
    for each in cluster.of([topic]):
        if each.partition == number:
            return each
    raise CommandFailed(f"Topic '{topic}' has no partition {number}.")


def topic_mode(client: ClusterClient, topic: str) -> str:
    return _setting(client, topic, REPLICATION_MODE)


def _setting(client: ClusterClient, topic: str, name: str) -> str:
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": [name]}
    response = client.ask(None, DESCRIBE_CONFIGS, {"resources": [resource]})
    return next((str(config.value) for result in response.results for config in result.configs), "")


def check_no_voters_change(client: ClusterClient, topic: str, partitions: Collection[int]) -> None:
    """Refuse where voters of one of these partitions are to become replicas of another mode. The longest log
    cannot be put first before that change is withdrawn, and an election would take the first replica.
    """
    for pending in msgspec.json.decode(_setting(client, topic, MODE_CHANGE) or "[]"):
        mode = pending["mode"]
        if pending["partition"] in partitions and by_hand(mode) == "recover":
            raise CommandFailed(
                f"{topic}-{pending['partition']} is still in mode {mode}, and its longest log cannot lead "
                f"while the mode changes. Set it back first: `tidelog topic alter {topic} --mode {mode}`; "
                "then use `tidelog topic recover`."
            )


def _check(client: ClusterClient, partition: Partition, *, unsafe: bool) -> None:
    check_no_voters_change(client, partition.topic, [partition.partition])
    mode = topic_mode(client, partition.topic)
    if (other := by_hand(mode)) != "recover":
        raise CommandFailed(f"Topic '{partition.topic}' has mode {mode}; use `tidelog topic {other}`.")
    if not unsafe:
        raise CommandFailed(
            "This may lose acknowledged records, and their number is unknown. Pass --unsafe to confirm that "
            "you know."
        )


def _copy(client: ClusterClient, cluster: Cluster, partition: Partition, replica: int) -> Copy:
    remembers = replica in partition.in_sync
    if replica not in cluster.brokers or cluster.brokers[replica].fenced:
        return Copy(replica, remembers, None, None)
    wanted = {"partition_index": partition.partition, "current_leader_epoch": -1, "timestamp": LATEST}
    body = {
        "replica_id": ANY_REPLICA,
        "isolation_level": 0,
        "topics": [{"name": partition.topic, "partitions": [wanted]}],
    }
    try:
        (response,) = client.ask(cluster.brokers[replica].address, LIST_OFFSETS, body).topics[0].partitions
    except CommandFailed:
        return Copy(replica, remembers, None, None)
    if response.error_code:
        return Copy(replica, remembers, None, None)
    return Copy(replica, remembers, response.leader_epoch, response.offset)


def _can_elect(partition: Partition, copies: Sequence[Copy]) -> bool:
    """Whether a majority of the replicas has its data and can be reached: --yes would be refused."""
    able = [copy for copy in copies if copy.remembers and copy.end_offset is not None]
    return 2 * len(able) > len(partition.replicas)


def _is_moving(client: ClusterClient, partition: Partition) -> bool:
    """Then the voters differ from the replicas, and only the controllers can judge: without them, this cannot
    be asked.
    """
    if not find_controllers(client).decide:
        return False
    return any(move[:2] == partition.name for move in cluster_admin.moving(client))


def _force(client: ClusterClient, partition: Partition, to: int) -> None:
    name = partition.name
    leaving = {each for move in cluster_admin.moving(client) if move[:2] == name for each in move.removing}
    staying = [replica for replica in partition.replicas if replica not in leaving and replica != to]
    if [to, *staying] != partition.replicas:
        _expect_done(cluster_admin.reassign(client, {name: [to, *staying]})[name])
    _expect_done(cluster_admin.elect(client, [name], unclean=True)[name])
    deadline = time.monotonic() + LEADS_WITHIN_S
    while _find(cluster_admin.look(client), *name).leader != to:
        if time.monotonic() > deadline:
            raise CommandFailed(
                f"Broker {to} was made leader of {partition.topic}-{partition.partition} but does not lead "
                "yet; see its log."
            )
        time.sleep(POLL_S)


def _expect_done(outcome: Outcome) -> None:
    if not outcome.done:
        raise CommandFailed(f"{outcome.words or outcome.error} ({outcome.error}).", outcome.error)


def _report(
    partition: Partition, copies: Sequence[Copy], longest: Copy, *, done: bool, as_json: bool
) -> None:
    unheard = [copy.broker for copy in copies if copy.end_offset is None]
    rows = [copy._asdict() for copy in copies]
    if as_json:
        print_json({"executed": done, "leader": longest.broker, "copies": rows, "unheard": unheard})
        return
    columns = {
        "broker": "broker",
        "remembers": "has all its data",
        "last_epoch": "last epoch",
        "end_offset": "holds up to",
    }
    print_table(rows, columns, right=("broker", "last_epoch", "end_offset"))
    name = f"{partition.topic}-{partition.partition}"
    verb = "leads" if done else "would lead"
    print(f"\nBroker {longest.broker} {verb} {name} with all records up to offset {longest.end_offset}.")
    names = brokers_named(unheard) if unheard else "the replicas that lost data"
    lost = "are" if done else "would be"
    print(f"Records that only {names} had {lost} lost; their number is unknown.")
    if not done:
        print("Start the missing brokers first if you can.")
