"""Partitions whose primary is down: Metadata names a backup as leader, but operators need the truth."""

from typing import Any

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster_client import ClusterClient
from tidelog.config.modes import PRIMARY_BACKUP


def correct(description: dict[str, Any], bootstrap: str) -> None:
    """Put the actual leader into a described topic, and the backup that serves readers."""
    if description["mode"] != PRIMARY_BACKUP:
        return
    with ClusterClient(bootstrap) as client:
        leaders = {
            each.partition: each.leader for each in cluster_admin.look(client).of([description["name"]])
        }
    for row in description["partitions"]:
        leader = leaders.get(row["partition"], cluster_admin.NOBODY)
        row["readers_at"] = None if leader == row["leader"] else row["leader"]
        row["leader"] = None if leader == cluster_admin.NOBODY else leader


def print_away(description: dict[str, Any]) -> None:
    for row in description["partitions"]:
        if row["leader"] is None and row.get("readers_at") is not None:
            waits = f"Partition {row['partition']} waits for its primary, broker {row['replicas'][0]}"
            print(f"{waits}: no writes, broker {row['readers_at']} serves readers.")
