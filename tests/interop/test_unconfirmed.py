"""Settings that promise more than before, with real brokers: what does not count yet is shown, and it counts
when the replica that was away is back and has confirmed it.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tidelog.testing import Cluster, running_cluster

from .calls import eventually
from .cluster_load import ADMIN_TIMEOUT_S, admin_client
from .primary_and_backup import VICTIM, Writer, numbers

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("unconfirmed"), 4) as cluster:
        yield cluster


def create(cluster: Cluster, admin: AdminClient, name: str) -> str:
    """Its primary stays, and its backup is the victim."""
    settings = {"replication.mode": "primary-backup", "min.insync.replicas": "1"}
    topic = NewTopic(name, num_partitions=1, replica_assignment=[[1, VICTIM]], config=settings)
    admin.create_topics([topic])[name].result(ADMIN_TIMEOUT_S)
    cluster.await_in_sync(name)
    return name


def configure(admin: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(ADMIN_TIMEOUT_S)


def unconfirmed(admin: AdminClient, topic: str) -> list[dict[str, Any]]:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    settings = future.result(ADMIN_TIMEOUT_S)
    shown = settings.get("replication.unconfirmed")
    return [] if shown is None else json.loads(shown.value)


@pytest.mark.parametrize(
    ("setting", "value", "waits_for"),
    [
        ("flush.messages", "1", f"brokers {VICTIM}, to confirm that their logs are synced"),
        ("min.insync.replicas", "2", "the leader: some records may have only 1 of the required copies"),
    ],
)
def test_it_counts_when_who_was_away_has_confirmed(
    cluster: Cluster, setting: str, value: str, waits_for: str
) -> None:
    admin = admin_client(cluster.bootstrap)
    topic = create(cluster, admin, setting.replace(".", "-"))
    Writer(cluster, topic).put(*numbers(0, 50), partition=0).flush()
    assert unconfirmed(admin, topic) == []
    cluster[VICTIM].kill()
    Writer(cluster, topic).put(*numbers(50, 60), partition=0).flush()
    configure(admin, topic, setting, value)
    wanted = [{"partition": 0, "waits_for": waits_for}]
    eventually(lambda: unconfirmed(admin, topic)[:1] == wanted, "it is shown what does not count yet")
    cluster[VICTIM].start()
    eventually(lambda: unconfirmed(admin, topic) == [], "the setting counts")
