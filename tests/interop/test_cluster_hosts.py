"""Three hosts with one config file each: every interface is listened on, one address is advertised."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import NewTopic

from tidelog.cli import main
from tidelog.errors import ErrorCode
from tidelog.testing import Broker, Cluster, Network, NetworkUnavailable

from . import calls
from .cluster_load import ADMIN_TIMEOUT_S, CLIENT_SETTINGS, admin_client, create_topic
from .records import batch
from .wire import Wire

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        network = Network(3).__enter__()
    except NetworkUnavailable as error:
        pytest.skip(str(error))
    yield network
    network.close()


@pytest.fixture
def cluster(network: Network, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, network=network)
    for broker in cluster:
        broker.settings["listeners"] = "PLAINTEXT://:9092"
        broker.settings["advertised.listeners"] = f"PLAINTEXT://{broker.host}:9092"
    try:
        cluster.start()
        yield cluster
        cluster.stop()
    finally:
        cluster.kill()


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "all", **CLIENT_SETTINGS})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**settings, **CLIENT_SETTINGS})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, 30)]
    finally:
        consumer.close()


def cut_off(cluster: Cluster, network: Network, leader: Broker) -> list[Broker]:
    """Only clients reach this leader of t from now on. Returns the others, when one of them leads."""
    others = [broker for broker in cluster if broker is not leader]
    for other in others:
        network.part(leader.node_id, other.node_id)
    cluster.wait_for(
        lambda: cluster.view("t", of=others[0]).topics["t"][0].leader not in (leader.node_id, -1),
        "another one leads",
    )
    return others


def key_of(coordinator: Broker, key_type: int) -> str:
    """A group or transactional id that this broker coordinates."""
    with Wire(coordinator.bootstrap) as wire:

        def answer_for(key: str) -> Any:
            asked = {"key_type": key_type, "coordinator_keys": [key]}
            return wire.call("find_coordinator", 4, **asked).coordinators[0]

        calls.eventually(lambda: answer_for("0").error_code == 0, "there are coordinators")
        return next(key for key in map(str, range(1000)) if answer_for(key).node_id == coordinator.node_id)


def test_clients_elsewhere_reach_every_broker_through_any_one(cluster: Cluster, network: Network) -> None:
    create_topic(cluster[1].bootstrap, "t", 1)
    cluster.await_in_sync("t")
    for number in (1, 2, 3):
        assert cluster.view(of=cluster[number]).brokers == {
            host: (network.hosts[host].address, 9092) for host in (1, 2, 3)
        }
        produce(cluster[number].bootstrap, "t", b"through %d" % number)
    assert consume(cluster[2].bootstrap, "t", 3) == [b"through 1", b"through 2", b"through 3"]


def test_a_host_that_goes_dark_is_replaced(cluster: Cluster, network: Network) -> None:
    create_topic(cluster.bootstrap, "t", 1)
    produce(cluster.bootstrap, "t", b"before")
    dark = cluster.leader_of("t").node_id
    with network.unplugged(dark):
        light = next(broker for broker in cluster if broker.node_id != dark)
        cluster.wait_for(
            lambda: cluster.view("t", of=light).topics["t"][0].leader not in (dark, -1), "another one leads"
        )
        produce(light.bootstrap, "t", b"during")
    cluster.await_ready()
    cluster.await_in_sync("t")
    assert consume(cluster[dark].bootstrap, "t", 2) == [b"before", b"during"]


def test_one_that_only_clients_reach_gives_up_its_leadership(cluster: Cluster, network: Network) -> None:
    """It cannot be told of its successor, so it stops by itself; nothing it took alone was acknowledged."""
    create_topic(cluster.bootstrap, "t", 1)
    produce(cluster.bootstrap, "t", b"before")
    alone = cluster.leader_of("t")
    others = cut_off(cluster, network, alone)
    bootstrap = ",".join(broker.bootstrap for broker in others)
    produce(bootstrap, "t", b"during")
    for other in others:
        network.join(alone.node_id, other.node_id)
    cluster.await_ready()
    cluster.await_in_sync("t")
    assert consume(cluster.bootstrap, "t", 2) == [b"before", b"during"]


class TestClientsOfOneThatOnlyClientsReach:
    """They are connected to no other broker. librdkafka asks only brokers that it is connected to, and this
    one cannot know who leads now.
    """

    @pytest.mark.parametrize("mode", ["isr", "quorum"])
    def test_a_producer_finds_the_new_leader(self, cluster: Cluster, network: Network, mode: str) -> None:
        create_topic(cluster.bootstrap, "t", 1, replication_mode=mode)
        alone = cluster.leader_of("t")
        settings = {"bootstrap.servers": alone.bootstrap, "acks": "all", **CLIENT_SETTINGS}
        producer = confluent_kafka.Producer(settings)
        producer.produce("t", b"before")
        assert producer.flush(30) == 0
        others = cut_off(cluster, network, alone)
        producer.produce("t", b"during")
        assert producer.flush(30) == 0
        assert consume(others[0].bootstrap, "t", 2) == [b"before", b"during"]

    def test_a_transaction_goes_on(self, cluster: Cluster, network: Network) -> None:
        create_topic(cluster.bootstrap, "t", 1)
        alone = cluster.leader_of("t")
        settings = {"bootstrap.servers": alone.bootstrap, "transactional.id": key_of(alone, 1)}
        producer = confluent_kafka.Producer({**settings, **CLIENT_SETTINGS})
        producer.init_transactions(30)
        for value in (b"before", b"during"):
            producer.begin_transaction()
            producer.produce("t", value)
            producer.commit_transaction(30)
            if value == b"before":
                others = cut_off(cluster, network, alone)
        assert consume(others[0].bootstrap, "t", 2) == [b"before", b"during"]

    def test_a_member_of_a_group_reads_and_commits(self, cluster: Cluster, network: Network) -> None:
        create_topic(cluster.bootstrap, "t", 1)
        produce(cluster.bootstrap, "t", b"before")
        alone = cluster.leader_of("t")
        settings = {"bootstrap.servers": alone.bootstrap, "group.id": key_of(alone, 0)}
        settings |= {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        consumer = confluent_kafka.Consumer({**settings, **CLIENT_SETTINGS})
        consumer.subscribe(["t"])
        assert [message.value() for message in consumer.consume(1, 30)] == [b"before"]
        others = cut_off(cluster, network, alone)
        produce(others[0].bootstrap, "t", b"during")
        assert [message.value() for message in consumer.consume(1, 30)] == [b"during"]

        def commits() -> bool:
            with contextlib.suppress(confluent_kafka.KafkaException):
                return bool(consumer.commit(asynchronous=False))
            return False

        calls.eventually(commits, "the offset is committed elsewhere")
        consumer.close()


@pytest.mark.parametrize("decides", [False, True], ids=["a broker", "the active controller"])
def test_a_leader_given_up_by_hand_while_it_lives_acknowledges_nothing_more(
    cluster: Cluster, network: Network, capsys: pytest.CaptureFixture[str], decides: bool
) -> None:
    """Alone in its set, it knows of nobody who could succeed it; but an operator on the other side can name
    somebody. When it is back it says what was given up.
    """
    controller = cluster.controller()
    old, heir = (broker for broker in cluster if broker is not controller)
    if decides:
        old, controller = controller, old
    replicas = [[old.node_id, heir.node_id]]
    topic = NewTopic("t", 1, replica_assignment=replicas, config={"min.insync.replicas": "1"})
    admin = admin_client(cluster.bootstrap)  # It must live until the answer is there.
    admin.create_topics([topic])["t"].result(ADMIN_TIMEOUT_S)
    produce(cluster.bootstrap, "t", b"both have it")
    cluster.await_in_sync("t")
    assert cluster.leader_of("t") is old
    others = [controller, heir]
    heir.kill()
    cluster.wait_for(lambda: len(cluster.partition("t").in_sync) == 1, "the leader is alone")
    produce(cluster.bootstrap, "t", b"one has it")
    for other in others:
        network.part(old.node_id, other.node_id)
    heir.start()
    cluster.wait_for(lambda: cluster.view("t", of=heir).topics["t"][0].leader == -1, "nobody leads")
    elect = ["topic", "elect", "t", "--unclean", "--execute", "--bootstrap", heir.bootstrap]
    # Refused while the old leader's session may last: the operator is told to try again.
    cluster.wait_for(lambda: main(elect) == 0, "the operator may choose")
    assert "1 partition got a new leader" in capsys.readouterr().out
    with Wire(old.bootstrap) as wire:
        answer = calls.produce(wire, "t", bytes(batch(b"to the old leader")))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    produce(heir.bootstrap, "t", b"to the new leader")
    for other in others:
        network.join(old.node_id, other.node_id)
    cluster.await_ready()
    cluster.await_in_sync("t")
    assert consume(cluster.bootstrap, "t", 2) == [b"both have it", b"to the new leader"]
    assert "an unclean election lost 1 records" in old.log_text()
