"""Disks that fail a follower: it says so, falls out of the in-sync set, holds nobody back, and comes back."""

import resource

import pytest
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker, Cluster

from . import calls
from .cluster_load import create_topic
from .records import batch
from .replicas import assert_identical, segments
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

TOPIC = "t"


@pytest.fixture
def cluster(tidelog_cluster: Cluster) -> Cluster:
    return tidelog_cluster


def write_many(cluster: Cluster, count: int, size: int = 20_000) -> int:
    """The offset after the last of them; each must be acknowledged by all in-sync replicas."""
    end = 0
    with Wire(cluster.leader_of(TOPIC).bootstrap) as wire:
        for n in range(count):
            answer = calls.produce(wire, TOPIC, bytes(batch(b"%06d" % n + b"x" * size)))
            assert answer.error_code is ErrorCode.none, answer
            end = answer.base_offset + 1
    return end


def a_follower(cluster: Cluster) -> Broker:
    """One that has nothing else to do, if there is one: its metadata log needs the disk as well."""
    controller = cluster.controller()
    followers = cluster.followers_of(TOPIC)
    return next((broker for broker in followers if broker is not controller), followers[0])


def test_a_follower_with_a_full_disk_does_not_hold_the_leader_back(cluster: Cluster) -> None:
    create_topic(cluster.bootstrap, TOPIC, 1)
    write_many(cluster, 5)
    cluster.await_in_sync(TOPIC)
    follower = a_follower(cluster)
    resource.prlimit(follower.pid, resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    end = write_many(cluster, 100)
    cluster.wait_for(
        lambda: follower.node_id not in cluster.partition(TOPIC).in_sync, "the follower left the in-sync set"
    )
    assert len(cluster.partition(TOPIC).in_sync) == 2
    end = write_many(cluster, 5)
    # The disk has room again; the log stays closed until the broker is started anew.
    follower.kill()
    follower.start()
    cluster.await_ready()
    cluster.await_in_sync(TOPIC)
    cluster.stop()
    assert_identical(cluster, TOPIC, 0, end)


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_damaged_segment_of_a_follower_is_fetched_again(cluster: Cluster, how: str) -> None:
    create_topic(cluster.bootstrap, TOPIC, 1, segment_bytes=1 << 20)
    end = write_many(cluster, 120)
    cluster.await_in_sync(TOPIC)
    follower = a_follower(cluster)
    if how == "kill":
        follower.kill()
    else:
        assert follower.stop() == 0
    damaged = segments(follower, TOPIC)[-1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 0x10
    damaged.write_bytes(data)
    if how == "stop":
        # Logs that were closed cleanly are not read at the start; a lost marker makes it an unclean stop.
        (follower.data_directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    follower.start()
    cluster.await_ready()
    cluster.await_in_sync(TOPIC)
    end = write_many(cluster, 1)
    cluster.await_in_sync(TOPIC)
    cluster.stop()
    assert_identical(cluster, TOPIC, 0, end)
