"""What works in a cluster, what does not, why, and what to type next.

Asks one broker for the metadata and tries to connect to all others: a broker that has just ended, or that no
controllers can fence, is still up in the metadata. Works without controllers and without leaders.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import DESCRIBE_CONFIGS, NO_LEADER, TOPIC_RESOURCE, Cluster, Name, Partition
from tidelog.cli.cluster.controllers import (
    CHECK_S,
    Controllers,
    find_controllers,
    has_failed_disk,
    start,
    without_controllers,
)
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import refused
from tidelog.cli.tables import count
from tidelog.planner.faults import listed
from tidelog.planner.promises import RULES
from tidelog.types import majority

HEALTHY, DEGRADED, UNAVAILABLE = "healthy", "degraded", "unavailable"
EXIT_CODES = {HEALTHY: 0, DEGRADED: 3, UNAVAILABLE: 4}
SHOWN_MAX = 5


class Survey(NamedTuple):
    cluster: Cluster
    down: frozenset[int]  # brokers that accept no connection
    controllers: Controllers
    offline: list[Partition]  # no leader that answers
    under_replicated: list[Partition]
    below_minimum: list[Partition]  # with a leader, but acks=all is refused
    unwritable: frozenset[int]  # brokers that are up and have logs that failed
    modes: dict[str, str]  # of the topics with offline partitions
    silent: frozenset[int] = frozenset()  # brokers that accept connections and do not answer
    # Of the offline partitions that are shown: those that have a replica which serves readers.
    readable: frozenset[Name] = frozenset()

    @property
    def level(self) -> str:
        if self.offline or self.below_minimum or not self.controllers.decide:
            return UNAVAILABLE
        missing = self.down or self.silent or self.controllers.down
        if missing or self.under_replicated or self.unwritable:
            return DEGRADED
        return DEGRADED if any(broker.fenced for broker in self.cluster.brokers.values()) else HEALTHY


def survey(client: ClusterClient) -> Survey:
    cluster = cluster_admin.look(client)
    controllers = find_controllers(client)
    failures = refused([each.address for each in cluster.brokers.values()], CHECK_S)
    down = frozenset(each.broker for each in cluster.brokers.values() if each.address in failures)
    quiet = client.silent(each.address for each in cluster.brokers.values() if each.broker not in down)
    silent = frozenset(each.broker for each in cluster.brokers.values() if each.address in quiet)
    offline = [each for each in cluster.partitions if _is_offline(each, down | silent)]
    weak = [each for each in cluster.partitions if len(set(each.in_sync) - down) < len(each.replicas)]
    settings = _settings(client, {each.topic for each in weak})
    return Survey(
        cluster,
        down,
        controllers,
        offline,
        [each for each in weak if each not in offline],
        [each for each in weak if each not in offline and _is_below_minimum(each, down, settings)],
        _unwritable(client, cluster, down | silent),
        {topic: values.get("replication.mode", "") for topic, values in settings.items()},
        silent,
        _readable(client, [each for each in offline if not _is_internal(each)][:SHOWN_MAX], down | silent),
    )


def _readable(client: ClusterClient, offline: Sequence[Partition], away: frozenset[int]) -> frozenset[Name]:
    """Those without a leader that consumers are sent to a replica of."""
    if not offline:
        return frozenset()
    described = client.metadata(*sorted({each.topic for each in offline}))
    served = {
        (topic.name, each.partition_index)
        for topic in described.topics
        for each in topic.partitions
        if each.leader_id != NO_LEADER and each.leader_id not in away
    }
    return frozenset(each.name for each in offline if each.name in served)


def _is_offline(partition: Partition, away: frozenset[int]) -> bool:
    """One that does not answer is not replaced while no controllers decide."""
    return partition.leader == NO_LEADER or partition.leader in away


def _settings(client: ClusterClient, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    wanted = [
        {
            "resource_type": TOPIC_RESOURCE,
            "resource_name": topic,
            "configuration_keys": ["min.insync.replicas", "replication.mode"],
        }
        for topic in sorted(topics)
    ]
    if not wanted:
        return {}
    response = client.ask(None, DESCRIBE_CONFIGS, {"resources": wanted})
    return {
        result.resource_name: {config.name: config.value for config in result.configs}
        for result in response.results
    }


def _is_below_minimum(
    partition: Partition, down: frozenset[int], settings: dict[str, dict[str, str]]
) -> bool:
    values = settings.get(partition.topic, {})
    least = min(int(values.get("min.insync.replicas") or 1), len(partition.replicas))
    if values.get("replication.mode") in RULES and RULES[values["replication.mode"]].elects_itself:
        least = majority(len(partition.replicas))
    return len(set(partition.in_sync) - down) < least


def _unwritable(client: ClusterClient, cluster: Cluster, down: frozenset[int]) -> frozenset[int]:
    """As the metadata say, or the broker itself: one that cannot write its metadata log is fenced."""
    found = {each for partition in cluster.partitions for each in partition.failed if each not in down}
    for broker in cluster.brokers.values():
        if broker.broker in down or broker.broker in found:
            continue
        if has_failed_disk(client, broker.address):
            found.add(broker.broker)
    return frozenset(found)


# --- in words -----------------------------------------------------------------------------------------------


def causes(found: Survey) -> list[str]:
    """What is wrong, the worst first, each with what to do about it."""
    said = []
    if not found.controllers.decide:
        said.append(_sentence(without_controllers(found.controllers)))
    if found.down:
        addresses = {each.broker: each.address for each in found.cluster.brokers.values()}
        said.append(
            f"{_brokers(found.down)} not answer. Start {'it' if len(found.down) == 1 else 'them'}: "
            f"{start(found.down, addresses)}."
        )
    fenced = [each.broker for each in found.cluster.brokers.values() if each.fenced]
    for broker in fenced:
        if broker not in found.down | found.unwritable | found.silent:
            said.append(
                f"Broker {broker} is up and fenced: it is starting, or does not reach the controllers; "
                "see its broker.log."
            )
    for broker in sorted(found.silent):
        said.append(
            f"Broker {broker} accepts connections and does not answer: it is starting, frozen or overloaded; "
            "see its broker.log."
        )
    if found.unwritable:
        said.append(_unwritable_disks(sorted(found.unwritable)))
    offline = [_offline(each, found) for each in found.offline if not _is_internal(each)]
    said += offline[:SHOWN_MAX]
    if len(offline) > SHOWN_MAX:
        said.append(
            f"{count(len(offline) - SHOWN_MAX, 'more partition')} without a leader; "
            "`tidelog cluster describe` lists all."
        )
    if internal := [each for each in found.offline if _is_internal(each)]:
        topics = ", ".join(sorted({each.topic for each in internal}))
        said.append(
            f"{count(len(internal), 'partition')} of {topics} without a leader: their groups and "
            "transactions wait."
        )
    below = [each for each in found.below_minimum if not _is_internal(each)]
    if below:
        names = ", ".join(f"{each.topic}-{each.partition}" for each in below[:SHOWN_MAX])
        said.append(f"Writes with acks=all are refused by {names}: too few replicas are in sync.")
    return said


def why_late(bootstrap: str) -> str:
    """While a command waits: what is known about the reason. Empty: nothing is wrong."""
    try:
        with ClusterClient(bootstrap) as client:
            return " ".join(causes(survey(client)))
    except CommandFailed as failure:
        return str(failure)


def _unwritable_disks(brokers: list[int]) -> str:
    if len(brokers) == 1:
        return (
            f"Broker {brokers[0]} cannot write to its disk: it is full or failing. Free space or replace the "
            "disk, then restart the broker; its broker.log names the partitions."
        )
    return (
        f"Brokers {listed(brokers)} cannot write to their disks: they are full or failing. Free space or "
        "replace the disks, then restart the brokers; their broker.log names the partitions."
    )


def _offline(partition: Partition, found: Survey) -> str:
    name = f"{partition.topic}-{partition.partition}"
    rule = RULES.get(found.modes.get(partition.topic, ""))
    able = [each for each in partition.in_sync if each not in found.down]
    if partition.name in found.readable:
        reads = "it can be read"
    else:
        reads = "it cannot be read now" if able else "no in-sync replica is up, so it cannot be read"
    if rule is not None and not rule.leader_can_be_replaced:
        what = f"waits for its {rule.leader}, broker {partition.replicas[0]}"
    elif partition.leader in found.silent:
        what = f"has a leader that does not answer, broker {partition.leader}"
    else:
        what = "has no leader"
    is_lost = not able and rule is not None and any(each not in found.down for each in partition.replicas)
    way = (
        ""
        if not is_lost or rule is None
        else f"; if its in-sync replicas are lost for good: `tidelog topic {rule.by_hand}`"
    )
    return f"{name} {what}: no writes; {reads}{way}."


def _is_internal(partition: Partition) -> bool:
    return partition.topic.startswith("__")


def _brokers(numbers: Iterable[int]) -> str:
    known = sorted(numbers)
    return f"Broker {known[0]} does" if len(known) == 1 else f"Brokers {listed(known)} do"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def as_json(found: Survey) -> dict[str, Any]:
    def names(partitions: list[Partition]) -> list[str]:
        return [f"{each.topic}-{each.partition}" for each in partitions]

    return {
        "level": found.level,
        "brokers_down": sorted(found.down),
        "brokers_not_answering": sorted(found.silent),
        "brokers_unwritable": sorted(found.unwritable),
        "controllers_down": sorted(found.controllers.down),
        "controllers_decide": found.controllers.decide,
        "partitions": len(found.cluster.partitions),
        "offline": names(found.offline),
        "below_minimum": names(found.below_minimum),
        "under_replicated": names(found.under_replicated),
        "causes": causes(found),
    }
