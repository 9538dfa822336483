"""Disks that fail one broker: it says so, holds nobody back, and gets again what it lost."""

import resource
import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import ElectionType
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker, Cluster

from . import calls
from .cluster_load import admin_client, create_topic
from .records import batch, values
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


def flip_a_bit(path: Path, at: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 0x10
    path.write_bytes(data)


def read_all(cluster: Cluster) -> list[bytes]:
    """Everything, from whoever leads by then; a refusal for the moment is no answer."""
    found: list[bytes] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with Wire(cluster.leader_of(TOPIC).bootstrap) as wire:
            answer = calls.fetch(wire, TOPIC, len(found))
            if answer.error_code is not ErrorCode.none:
                time.sleep(0.05)
                continue
            found += [value for value in values(answer.records) if value is not None]
            if len(found) >= calls.end_offset(wire, TOPIC):
                break
    return found


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
    flip_a_bit(damaged)
    if how == "stop":
        # Logs that were closed cleanly are not read at the start; a lost marker makes it an unclean stop.
        (follower.data_directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    follower.start()
    cluster.await_ready()
    cluster.await_in_sync(TOPIC)
    assert f"{damaged.stem}: truncated" in follower.log_text()
    end = write_many(cluster, 1)
    cluster.await_in_sync(TOPIC)
    cluster.stop()
    assert_identical(cluster, TOPIC, 0, end)


def test_a_flipped_bit_in_an_old_segment_of_a_leader_reaches_nobody(cluster: Cluster) -> None:
    create_topic(cluster.bootstrap, TOPIC, 1, segment_bytes=1 << 20)
    end = write_many(cluster, 150)
    cluster.await_in_sync(TOPIC)
    leader = cluster.leader_of(TOPIC)
    assert leader.stop() == 0
    flip_a_bit(segments(leader, TOPIC)[0])
    leader.start()
    cluster.await_ready()
    cluster.await_in_sync(TOPIC)
    admin = admin_client(cluster.bootstrap)
    admin.elect_leaders(ElectionType.PREFERRED, None).result(30)
    cluster.wait_for(lambda: cluster.partition(TOPIC).leader == leader.node_id, "it leads again")
    assert [value[:6] for value in read_all(cluster)] == [b"%06d" % n for n in range(end)]
    calls.eventually(lambda: "damaged" in leader.log_text(), "it says that it was damaged")
    cluster.await_in_sync(TOPIC)
    cluster.stop()
    assert_identical(cluster, TOPIC, 0, end)


@pytest.mark.parametrize("mode", ["isr", "quorum"])
@pytest.mark.parametrize("how", ["flipped bit", "removed"])
def test_who_lost_records_does_not_lead_those_that_never_had_them(
    cluster: Cluster, mode: str, how: str
) -> None:
    """Two of three replicas have an acknowledged record. One of them is frozen, and the other comes back
    without it.
    """
    configs = {"min_insync_replicas": 2} if mode == "isr" else {"replication_mode": mode}
    create_topic(cluster.bootstrap, TOPIC, 1, **configs)
    write_many(cluster, 5)
    cluster.await_in_sync(TOPIC)
    leader, damaged, absent = cluster.leader_of(TOPIC), *cluster.followers_of(TOPIC)
    absent.kill()
    cluster.wait_for(lambda: absent.node_id not in cluster.partition(TOPIC).in_sync, "one replica is away")
    calls.eventually(lambda: _is_noted(damaged), "the broker has noted that it has a replica")
    write_many(cluster, 5)
    damaged.kill()
    leader.pause()
    if how == "removed":
        shutil.rmtree(damaged.data_directory / f"{TOPIC}-0")
    else:
        newest = segments(damaged, TOPIC)[-1]
        flip_a_bit(newest, at=newest.stat().st_size - 100)
    damaged.launch()
    absent.launch()
    calls.eventually(lambda: "the disk lost data" in damaged.log_text(), "it says what is missing")
    time.sleep(3)  # Longer than an election takes: nothing must happen in this time.
    leader.resume()
    cluster.await_ready()
    cluster.await_in_sync(TOPIC)
    found = [value[:6] for value in read_all(cluster) if value[:6].isdigit()]  # Not those of an election.
    assert found == [b"%06d" % n for n in range(5)] * 2


def _is_noted(broker: Broker) -> bool:
    path = broker.data_directory / "replica-checkpoint"
    return path.exists() and f"{TOPIC} 0 " in path.read_text()
