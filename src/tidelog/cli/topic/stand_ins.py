"""Partitions without a leader whose replicas serve readers: Metadata names one of them as leader, which an
operator must not be told.
"""

from typing import Any

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.reach import refused
from tidelog.planner.promises import RULES


def correct(description: dict[str, Any], bootstrap: str) -> None:
    """Put the actual leader into a described topic, and the replica that serves readers."""
    with ClusterClient(bootstrap) as client:
        described = cluster_admin.look(client)
        down = refused([each.address for each in described.brokers.values()])
        gone = {each.broker for each in described.brokers.values() if each.address in down}
        leaders = {
            each.partition: cluster_admin.NO_LEADER if each.leader in gone else each.leader
            for each in described.of([description["name"]])
        }
    for row in description["partitions"]:
        leader = leaders.get(row["partition"], cluster_admin.NO_LEADER)
        served = row["leader"] if row["leader"] not in gone else None
        row["readers_at"] = None if leader == served else served
        row["leader"] = None if leader == cluster_admin.NO_LEADER else leader


def print_away(description: dict[str, Any]) -> None:
    for row in description["partitions"]:
        if row["leader"] is not None:
            continue
        waits = f"Partition {row['partition']} {_waits_for(description['mode'], row)}"
        at = row.get("readers_at")
        print(f"{waits}: no writes, {'no readers' if at is None else f'broker {at} serves readers'}.")
    if any(row["leader"] is None for row in description["partitions"]):
        print("`tidelog cluster status` says why, and what to start.")


def _waits_for(mode: str | None, row: dict[str, Any]) -> str:
    if mode in RULES and not RULES[mode].leader_can_be_replaced:
        return f"waits for its {RULES[mode].leader}, broker {row['replicas'][0]}"
    return "has no leader"
