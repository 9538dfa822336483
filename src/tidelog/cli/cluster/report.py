"""What ``tidelog cluster status`` and ``describe`` show, as plain values ready for a table or for JSON."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import NO_LEADER, Broker, Partition
from tidelog.cli.cluster.health import Survey, causes, survey
from tidelog.cli.cluster_client import ClusterClient


def status(client: ClusterClient, found: Survey | None = None) -> dict[str, Any]:
    """The state of the cluster, in numbers. ``moving`` is None while no controllers can say it."""
    found = found or survey(client)
    cluster, down = found.cluster, found.down
    resting = _drained(client, found)
    leads = Counter(partition.leader for partition in cluster.partitions)
    holds = Counter(replica for partition in cluster.partitions for replica in partition.replicas)
    in_sync = Counter(member for partition in cluster.partitions for member in partition.in_sync)
    return {
        "cluster": cluster.cluster_id,
        "level": found.level,
        "controller": cluster.controller if cluster.controller >= 0 and found.controllers.decide else None,
        "brokers": [
            {
                "broker": each.broker,
                "address": str(each.address),
                "rack": each.rack,
                "state": _state(each, found, resting),
                "leads": 0 if each.broker in down else leads[each.broker],
                "replicas": holds[each.broker],
                "in_sync": in_sync[each.broker],
            }
            for each in cluster.brokers.values()
        ],
        "partitions": len(cluster.partitions),
        "offline": len(found.offline),
        "under_replicated": len(found.under_replicated) + len(found.offline),
        "below_minimum": len(found.below_minimum),
        "moving": len(cluster_admin.moving(client)) if found.controllers.decide else None,
        "causes": causes(found),
    }


def describe(client: ClusterClient, *, internal: bool = True) -> dict[str, Any]:
    """The numbers, the controllers, and every partition that is offline or under-replicated."""
    found = survey(client)
    decide = found.controllers.decide
    troubled = _troubled(found)
    shown = [each for each in troubled if internal or not each["topic"].startswith("__")]
    return {
        **status(client, found),
        "quorum": cluster_admin.quorum(client) if decide else None,
        "troubled": shown,
        "troubled_internal": sum(each["topic"].startswith("__") for each in troubled),
        "moves": [each._asdict() for each in cluster_admin.moving(client)] if decide else [],
    }


def _troubled(found: Survey) -> list[dict[str, Any]]:
    """The offline ones first, those of internal topics last."""

    def rows(partitions: Iterable[Partition], state: str) -> list[dict[str, Any]]:
        ordered = sorted(partitions, key=lambda each: (each.topic.startswith("__"), each.name))
        return [_row(each, state, found.down) for each in ordered]

    below = set(map(_name, found.below_minimum))
    weak = [each for each in found.under_replicated if _name(each) not in below]
    every = [
        *rows(found.offline, "offline"),
        *rows(found.below_minimum, "below minimum"),
        *rows(weak, "under-replicated"),
    ]
    return sorted(every, key=lambda row: row["topic"].startswith("__"))


def _row(partition: Partition, state: str, down: frozenset[int]) -> dict[str, Any]:
    leader = NO_LEADER if partition.leader in down else partition.leader
    fields = partition._asdict()
    del fields["failed"]
    return fields | {"leader": leader, "state": state}


def _name(partition: Partition) -> tuple[str, int]:
    return partition.name


def _state(broker: Broker, found: Survey, resting: set[int]) -> str:
    if broker.broker in found.down:
        return "down"
    if broker.broker in found.silent:
        return "not answering"
    if broker.broker in found.unwritable:
        return "disk failed"
    if broker.fenced:
        return "fenced"
    return "drained" if broker.broker in resting else "up"


def _drained(client: ClusterClient, found: Survey) -> set[int]:
    brokers = {key: each for key, each in found.cluster.brokers.items() if key not in found.down}
    return cluster_admin.drained(client, found.cluster._replace(brokers=brokers))
