"""Topics whose replicas vote, on real brokers with real clients.

``TIDELOG_TEST_FAULT_ROUNDS=30`` runs as many rounds of faults instead of the short series.
"""

import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import confluent_kafka
import pytest

from tidelog.testing import Cluster, Network, NetworkUnavailable, running_cluster

from .calls import eventually
from .cluster_load import Load, admin_client, create_topic
from .test_cluster_faults import (
    CUT,
    FREEZE,
    KILL,
    LONG,
    PARTITIONS,
    ROUNDS,
    STOP,
    TOPIC,
    assert_replicas_agree,
    one_round,
)

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

SHORT = [(KILL, "leader"), (FREEZE, "leader"), (CUT, "leader"), (STOP, "leader"), (KILL, "follower")]
IMPATIENT = {"log_level": 2, "socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 500}


@pytest.fixture
def network() -> Iterator[Network | None]:
    try:
        with Network(3) as network:
            yield network
    except NetworkUnavailable:
        yield None


@pytest.fixture
def cluster(network: Network | None, tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, network=network) as cluster:
        yield cluster


@pytest.mark.timeout(120 + 30 * ROUNDS)
def test_acknowledged_records_survive_every_fault(cluster: Cluster) -> None:
    series = list(islice(cycle(LONG), ROUNDS)) if ROUNDS else SHORT
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replication_mode="quorum", segment_bytes=1 << 20)
    load = Load(cluster.bootstrap, TOPIC, PARTITIONS, gaps=True)
    load.start()
    for fault, role in series:
        if fault is CUT and cluster.network is None:
            continue
        cluster.await_in_sync(TOPIC)
        one_round(cluster, load, fault, role)
    cluster.await_in_sync(TOPIC)
    load.finish()
    print(load.check())  # noqa: T201
    assert_replicas_agree(cluster)
