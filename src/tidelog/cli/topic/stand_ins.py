"""Partitions without a leader whose replicas serve readers: Metadata names one of them as leader, which an
operator must not be told.
"""

from typing import Any

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.planner.promises import RULES


def correct(description: dict[str, Any], bootstrap: str) -> None:
    """Put the actual leader into a described topic, and the replica that serves readers."""
    rule = RULES.get(description["mode"])
    if not (rule and rule.serves_without_leader) and not description["mode_change"]:
        return
    with ClusterClient(bootstrap) as client:
        leaders = {
            each.partition: each.leader for each in cluster_admin.look(client).of([description["name"]])
        }
    for row in description["partitions"]:
        leader = leaders.get(row["partition"], cluster_admin.NO_LEADER)
        row["readers_at"] = None if leader == row["leader"] else row["leader"]
        row["leader"] = None if leader == cluster_admin.NO_LEADER else leader


def print_away(description: dict[str, Any]) -> None:
    for row in description["partitions"]:
        if row["leader"] is None and row.get("readers_at") is not None:
            waits = f"Partition {row['partition']} {_waits_for(description['mode'], row)}"
            print(f"{waits}: no writes, broker {row['readers_at']} serves readers.")


def _waits_for(mode: str | None, row: dict[str, Any]) -> str:
    if mode in RULES and not RULES[mode].leader_can_be_replaced:
        return f"waits for its {RULES[mode].leader}, broker {row['replicas'][0]}"
    return "has no leader"
