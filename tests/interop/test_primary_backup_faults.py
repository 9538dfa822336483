"""Three real brokers under load on primary-backup topics, one fault after the other, and an account of every
record: what was acknowledged is where it was said to be, once and in order.

``TIDELOG_TEST_FAULT_ROUNDS=30`` runs as many rounds instead of the short series; ``-s`` shows them.
"""

import time
from itertools import cycle, islice
from typing import Any

import pytest

from tidelog.testing import Cluster

from . import calls
from .cluster_load import Load, create_topic
from .replicas import assert_identical
from .test_cluster_faults import (
    CUT,
    FREEZE,
    KILL,
    PARTITIONS,
    RESTART,
    ROUNDS,
    STOP,
    Fault,
    cluster,
    network,
)
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]
__all__ = ["cluster", "network"]

COPIES = {"async": 1, "double": 2}  # topic → copies that a successful response needs
SHORT = [(KILL, 1), (FREEZE, 2), (CUT, 3)]
LONG = [(fault, broker) for fault in (KILL, FREEZE, CUT, RESTART, STOP) for broker in (1, 2, 3)]


@pytest.mark.timeout(180 + 30 * ROUNDS)
def test_acknowledged_records_survive_every_fault(cluster: Cluster) -> None:
    loads = {}
    for topic, copies in COPIES.items():
        settings: dict[str, Any] = {"replication_mode": "primary-backup", "min_insync_replicas": copies}
        create_topic(cluster.bootstrap, topic, PARTITIONS, segment_bytes=1 << 20, **settings)
        loads[topic] = Load(cluster.bootstrap, topic, PARTITIONS, mode=topic)
        loads[topic].start()
    cluster.await_in_sync(*COPIES)
    for fault, broker in islice(cycle(LONG), ROUNDS) if ROUNDS else SHORT:
        if fault is CUT and cluster.network is None:
            print("cut off: left out, because network namespaces cannot be made here")  # noqa: T201
            continue
        one_round(cluster, loads, fault, broker)
    for topic, load in loads.items():
        load.finish()
        print(topic, load.check())  # noqa: T201
    assert_replicas_agree(cluster)


def one_round(cluster: Cluster, loads: dict[str, Load], fault: Fault, broker: int) -> None:
    """A broker is the primary of one partition of each topic, and a backup of the others."""
    for load in loads.values():
        load.struck(f"{fault.name} of broker {broker}")
    fault.strike(cluster, cluster[broker])
    if fault is not RESTART:
        others = [each for each in cluster.running if each is not cluster[broker]]
        cluster.wait_for(
            lambda: broker not in cluster.view("double", of=others[0]).topics["double"][0].in_sync,
            f"broker {broker} is not missed",
        )
    for load in loads.values():
        load.healed(f"{fault.name} is over")
    fault.heal(cluster, cluster[broker])
    cluster.await_ready()
    cluster.await_in_sync(*COPIES)
    began = time.monotonic()
    for load in loads.values():
        load.await_writes(began)
    print(f"{fault.name:<10} of broker {broker}: all partitions are written again")  # noqa: T201


def assert_replicas_agree(cluster: Cluster) -> None:
    """Everything that the primaries hold, their backups hold, byte for byte."""
    ends = {}
    for topic in COPIES:
        for partition in range(PARTITIONS):
            with Wire(cluster.leader_of(topic, partition).bootstrap) as wire:
                ends[topic, partition] = calls.end_offset(wire, topic, partition)
    cluster.stop()
    for (topic, partition), end in ends.items():
        assert end > 0
        assert_identical(cluster, topic, partition, end)
