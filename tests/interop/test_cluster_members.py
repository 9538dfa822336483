"""Brokers that should not be there, or come back other than they went: nothing is lost, and it goes on."""

import random
import re
import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from kio.schema.errors import ErrorCode

from tidelog.testing import Broker, Cluster

from . import calls
from .cluster_load import ADMIN_TIMEOUT_S, Load, admin_client, create_topic
from .records import batch, values
from .replicas import assert_identical, batches, segments
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

TOPIC = "t"
SESSION_MS = 3000


@pytest.fixture
def cluster(tidelog_cluster: Cluster) -> Cluster:
    return tidelog_cluster


def write(cluster: Cluster, *written: bytes, topic: str = TOPIC, partition: int = 0) -> int:
    """Write one batch with acks=all to whoever leads, once however often it is sent; the offset after it."""
    data = bytes(batch(*written, producer=(random.getrandbits(62), 0, 0)))
    offset = -1

    def acknowledged() -> bool:
        nonlocal offset
        leader = cluster.leader_of(topic, partition)
        with Wire(leader.bootstrap) as wire:
            answer = calls.produce(wire, topic, data, partition=partition)
        offset = answer.base_offset
        return answer.error_code is ErrorCode.none

    cluster.wait_for(acknowledged, f"a write to {topic}-{partition} was acknowledged")
    return offset + len(written)


def read(cluster: Cluster, topic: str = TOPIC, partition: int = 0) -> list[bytes | None]:
    found: list[bytes | None] = []
    with Wire(cluster.leader_of(topic, partition).bootstrap) as wire:
        start, end = (calls.start_offset(wire, topic, partition), calls.end_offset(wire, topic, partition))
        while start + len(found) < end:
            found += values(calls.fetch(wire, topic, start + len(found), partition=partition).records)
    return found


def assert_same_on_disk(cluster: Cluster, end_offset: int, topic: str = TOPIC) -> None:
    cluster.await_in_sync(topic)
    cluster.stop()
    assert_identical(cluster, topic, 0, end_offset)


def placed(replicas: list[int]) -> NewTopic:
    """A topic with one partition on these brokers, all of which an acks=all write waits for."""
    minimum = {"min.insync.replicas": str(len(replicas))}
    return NewTopic(TOPIC, num_partitions=1, replica_assignment=[replicas], config=minimum)


def intruder(cluster: Cluster, directory: Path, node_id: int) -> Broker:
    """One more process that takes itself for a broker of this cluster."""
    shared = {name: cluster[1].settings[name] for name in ("controller.quorum.voters", "cluster.secret.file")}
    return Broker(directory, {"node.id": node_id, **shared})


class TestStrangers:
    @pytest.mark.parametrize("of_the_controller", [False, True])
    def test_a_second_broker_with_the_same_id_is_sent_away(
        self, cluster: Cluster, tmp_path: Path, of_the_controller: bool
    ) -> None:
        create_topic(cluster.bootstrap, TOPIC, 3)
        cluster.await_in_sync(TOPIC)
        before = cluster.view(TOPIC).topics
        controller = cluster.controller().node_id
        number = controller if of_the_controller else controller % 3 + 1
        double = intruder(cluster, tmp_path / "double", number)
        double.launch()
        try:
            assert double.await_end() != 0
        finally:
            double.kill()
        reason = "is the active controller" if of_the_controller else "is registered and alive"
        assert re.search(f"another (broker|node) {number} {reason}", double.log_tail(5))
        # Nobody was taken for dead because of it.
        assert cluster.view(TOPIC).topics == before
        cluster[number].check_alive()
        write(cluster, b"and on it goes")

    def test_a_broker_of_another_cluster_is_sent_away(self, cluster: Cluster) -> None:
        """The controllers were set up anew at the same addresses, and one broker was forgotten."""
        stray = cluster.add_broker()
        stray.start()
        cluster.await_ready()
        cluster.stop()
        for number in (1, 2, 3):
            shutil.rmtree(cluster[number].data_directory)
            cluster[number].launch()
        cluster.await_ready()
        stray.launch()
        assert stray.await_end() != 0
        assert "belongs to another cluster than the data in" in stray.log_tail(5)
        assert set(cluster.view().brokers) == {1, 2, 3}


class TestReturns:
    @pytest.mark.parametrize("role", ["leader", "follower"])
    def test_a_wiped_disk_is_filled_again(self, cluster: Cluster, role: str) -> None:
        create_topic(cluster.bootstrap, TOPIC, 1)
        write(cluster, *(b"before %d" % n for n in range(100)))
        cluster.await_in_sync(TOPIC)
        victim = cluster.leader_of(TOPIC) if role == "leader" else cluster.followers_of(TOPIC)[0]
        victim.kill()
        shutil.rmtree(victim.data_directory)
        end = write(cluster, b"while it was away")
        victim.start()
        cluster.await_ready()
        cluster.await_in_sync(TOPIC)
        assert read(cluster) == [*(b"before %d" % n for n in range(100)), b"while it was away"]
        assert_same_on_disk(cluster, end)

    def test_a_broker_that_missed_everything_catches_up(self, cluster: Cluster) -> None:
        """Leaders changed, records it has were deleted and more came than one segment holds."""
        create_topic(cluster.bootstrap, TOPIC, 1, segment_bytes=1 << 20)
        write(cluster, *(b"old %d" % n for n in range(100)))
        cluster.await_in_sync(TOPIC)
        away = cluster.followers_of(TOPIC)[0]
        away.kill()
        end = 0
        for n in range(3):
            end = write(cluster, *(b"new %d" % n + b"x" * 1000 for _ in range(900)))
        admin = admin_client(cluster.bootstrap)
        with Wire(cluster.leader_of(TOPIC).bootstrap) as wire:
            wire.call(
                "delete_records",
                2,
                topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 1500}]}],
                timeout=30_000,
            )
        admin.create_topics([NewTopic("later", 3, 2)])["later"].result(ADMIN_TIMEOUT_S)
        leader = cluster.leader_of(TOPIC)
        leader.restart()
        end = write(cluster, b"the end")
        away.start()
        cluster.await_ready()
        cluster.await_in_sync(TOPIC)
        expected = [part.data for part in batches(cluster.leader_of(TOPIC), TOPIC) if part.end_offset > 1500]
        cluster.stop()
        held = [part.data for part in batches(away, TOPIC) if part.end_offset > 1500]
        assert held == expected
        assert end == 100 + 3 * 900 + 1

    def test_deleted_records_stay_deleted_when_the_leader_dies_after_its_answer(
        self, cluster: Cluster
    ) -> None:
        create_topic(cluster.bootstrap, TOPIC, 1)
        write(cluster, *(b"%d" % n for n in range(100)))
        cluster.await_in_sync(TOPIC)
        leader = cluster.leader_of(TOPIC)
        with Wire(leader.bootstrap) as wire:
            wanted = {"partition_index": 0, "offset": 60}
            answer = wire.call(
                "delete_records", 2, topics=[{"name": TOPIC, "partitions": [wanted]}], timeout=30_000
            )
        assert answer.topics[0].partitions[0].low_watermark == 60
        leader.kill()
        with Wire(cluster.leader_of(TOPIC).bootstrap) as wire:
            assert calls.start_offset(wire, TOPIC) == 60

    def test_admin_clients_need_not_wait_for_a_controller_that_is_dead(self, cluster: Cluster) -> None:
        controller = cluster.controller()
        controller.kill()
        for broker in cluster:
            if broker is not controller:
                with Wire(broker.bootstrap) as wire:
                    assert wire.call("metadata", 12, topics=[]).controller_id == broker.node_id
        admin = admin_client(cluster.bootstrap)
        admin.create_topics([NewTopic(TOPIC, 1, 2)])[TOPIC].result(ADMIN_TIMEOUT_S)

    def test_a_topic_that_was_deleted_meanwhile_is_gone_and_its_name_is_free(self, cluster: Cluster) -> None:
        create_topic(cluster.bootstrap, TOPIC, 1)
        write(cluster, b"of the first one")
        cluster.await_in_sync(TOPIC)
        away = cluster.followers_of(TOPIC)[0]
        away.kill()
        admin = admin_client(cluster.bootstrap)
        admin.delete_topics([TOPIC])[TOPIC].result(ADMIN_TIMEOUT_S)
        create_topic(cluster.bootstrap, TOPIC, 1, replicas=2)
        end = write(cluster, b"of the second one")
        away.start()
        cluster.await_ready()
        cluster.await_in_sync(TOPIC)
        assert read(cluster) == [b"of the second one"]
        holders = cluster.partition(TOPIC).replicas
        calls.eventually(
            lambda: away.node_id in holders or not segments(away, TOPIC), "the deleted topic's files go"
        )
        cluster.stop()
        assert_identical([cluster[number] for number in holders], TOPIC, 0, end)

    def test_all_killed_at_once_and_back(self, cluster: Cluster) -> None:
        create_topic(cluster.bootstrap, TOPIC, 1)
        written = [b"%d" % n for n in range(200)]
        for value in written:
            write(cluster, value)
        cluster.kill()
        cluster.start()
        cluster.await_in_sync(TOPIC)
        assert read(cluster) == written
        assert_same_on_disk(cluster, len(written))


class TestWithoutControllers:
    @pytest.mark.tidelog_settings(
        {"offsets.topic.replication.factor": 1, "broker.session.timeout.ms": SESSION_MS}
    )
    def test_serving_goes_on_without_the_controllers_majority(self, cluster: Cluster) -> None:
        for _ in range(2):
            cluster.add_broker().start()
        cluster.await_ready()
        admin = admin_client(cluster.bootstrap)
        new = NewTopic(
            TOPIC, num_partitions=1, replica_assignment=[[4, 5]], config={"min.insync.replicas": "2"}
        )
        admin.create_topics([new])[TOPIC].result(ADMIN_TIMEOUT_S)
        write(cluster, b"before")
        cluster[1].kill()
        cluster[2].kill()
        began = time.monotonic()
        written = [b"before"]
        # Longer than a session: nobody can be fenced now, and nobody may act as if it were.
        while time.monotonic() - began < 1.5 * SESSION_MS / 1000:
            written.append(b"%.3f" % (time.monotonic() - began))
            with Wire(cluster[4].bootstrap) as wire:
                answer = calls.produce(wire, TOPIC, bytes(batch(written[-1])))
                assert answer.error_code is ErrorCode.none, f"{answer} after {written[-1]!r} s"
        with Wire(cluster[4].bootstrap) as wire:
            found = values(calls.fetch(wire, TOPIC, 0).records)
        assert found == written
        with pytest.raises(KafkaException):
            admin.create_topics([NewTopic("other", 1, 1)], operation_timeout=1, request_timeout=3)[
                "other"
            ].result(10)
        cluster.start()
        cluster.await_ready()
        create_topic(cluster.bootstrap, "again", 1)
        write(cluster, b"after", topic="again")


class TestRefusals:
    def test_placement_on_a_broker_that_is_not_there(self, tidelog_shared_cluster: Cluster) -> None:
        admin = admin_client(tidelog_shared_cluster.bootstrap)
        with pytest.raises(KafkaException, match="INVALID_REPLICA_ASSIGNMENT"):
            admin.create_topics([NewTopic(TOPIC, num_partitions=1, replica_assignment=[[1, 7]])])[
                TOPIC
            ].result(ADMIN_TIMEOUT_S)

    def test_more_replicas_than_brokers(self, tidelog_shared_cluster: Cluster) -> None:
        with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
            create_topic(tidelog_shared_cluster.bootstrap, TOPIC, 1, replicas=4)

    def test_a_minimum_that_can_never_be_reached(self, tidelog_shared_cluster: Cluster) -> None:
        with pytest.raises(KafkaException, match="INVALID_CONFIG"):
            create_topic(tidelog_shared_cluster.bootstrap, TOPIC, 1, replicas=2, min_insync_replicas=3)


def test_load_goes_on_while_a_broker_is_added(cluster: Cluster) -> None:
    create_topic(cluster.bootstrap, TOPIC, 3)
    load = Load(cluster.bootstrap, TOPIC, 3)
    load.start()
    cluster.add_broker().start()
    cluster.await_ready()
    load.await_writes(time.monotonic())
    load.finish()
    load.check()
    assert set(cluster.view(of=cluster[4]).brokers) == {1, 2, 3, 4}
