"""``tidelog modes``: what each replication mode promises, or what one topic does with its actual settings."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tidelog.cli.client import connect_admin
from tidelog.cli.cluster.controllers import controllers_of
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from tidelog.cli.tables import print_json, print_table
from tidelog.cli.topic import admin as topic_admin
from tidelog.cli.topic.mode_changes import print_change, print_unconfirmed
from tidelog.cli.topic.promised import terms_of
from tidelog.planner.faults import Placement
from tidelog.planner.promises import examples
from tidelog.planner.table import describe

# Key of a promise → its row heading.
QUESTIONS = {
    "replicas": "replicas",
    "copies": "copies before acknowledgement (acks=all)",
    "survives_writing": "failures tolerated for writes",
    "survives_reading": "failures tolerated for reads",
    "survives_destruction": "lost disks tolerated without data loss",
    "writes_stop_when": "writes stop when",
    "can_lose_when": "acknowledged records are lost only if",
    "order": "order",
    "who_leads": "leader",
    "leader_dead": "when the leader fails",
    "needs_controllers": "controllers needed",
    "acks_1": "acks=1 means",
    "least_replicas": "minimum replicas",
}


def modes(
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", metavar="TOPIC", help="Show the promises of this topic with its current settings."
        ),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show what the replication modes promise: copies, failures tolerated, possible loss, order, elections.

    Without --topic, this compares the modes with their usual settings and needs no cluster. With --topic, it
    shows the promises of one topic, computed from its replicas, its settings and where the controllers are.
    `tidelog plan topic` says more, also about brokers that are down now.

    Example: tidelog modes --topic orders
    """
    if topic is None:
        columns = {heading: describe(terms) for heading, terms in examples().items()}
    else:
        description = topic_admin.describe(connect_admin(bootstrap), topic)
        columns = {topic: describe(terms_of(description), _placement(description, bootstrap))}
    if json:
        print_json([{"name": name, **promise} for name, promise in columns.items()])
        return
    rows = [
        {"question": words} | {name: _cell(promise[key]) for name, promise in columns.items()}
        for key, words in QUESTIONS.items()
    ]
    if topic is not None:
        print(f"Topic {topic}, mode {columns[topic]['mode']}\n")
    print_table(rows, {"question": ""} | {name: name for name in columns}, prose=True)
    if topic is not None:
        print_change(description["mode"], description["mode_change"])
        print_unconfirmed(description["unconfirmed"])


def _placement(description: Mapping[str, Any], bootstrap: str) -> Placement:
    """Of the partition with the fewest replicas, with the controllers of this cluster."""
    with ClusterClient(bootstrap) as client:
        controllers = controllers_of(client)
    fewest = min(description["partitions"], key=lambda each: len(each["replicas"]))
    return Placement(tuple(fewest["replicas"]), controllers)


def _cell(value: Any) -> str:
    return "; or ".join(value) if isinstance(value, list) else str(value)
