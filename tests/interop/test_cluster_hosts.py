"""Three hosts with one config file each: every interface is listened on, one address is advertised."""

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import NewTopic

from tidelog.cli import main
from tidelog.errors import ErrorCode
from tidelog.testing import Cluster, Network, NetworkUnavailable

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
    others = [broker for broker in cluster if broker is not alone]
    for other in others:
        network.part(alone.node_id, other.node_id)
    cluster.wait_for(
        lambda: cluster.view("t", of=others[0]).topics["t"][0].leader not in (alone.node_id, -1),
        "another one leads",
    )
    bootstrap = ",".join(broker.bootstrap for broker in others)
    produce(bootstrap, "t", b"during")
    for other in others:
        network.join(alone.node_id, other.node_id)
    cluster.await_ready()
    cluster.await_in_sync("t")
    assert consume(cluster.bootstrap, "t", 2) == [b"before", b"during"]


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
    assert main(["topic", "elect", "t", "--unclean", "--execute", "--bootstrap", heir.bootstrap]) == 0
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
