"""Clients of three makers and Java's over TLS, with certificates of their own and without; brokers, too."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import kafka
from tidelog.client.cluster_view import is_ready
from tidelog.lab.local.broker import free_port
from tidelog.lab.local.certificates import Authority
from tidelog.testing import Cluster, Setting

from .test_java import CONSUMER, JARS, PRODUCER, java
from .tls_cluster import BROKERS, MUTUAL, PASSWORD, TRUSTING, TlsCluster, tls_cluster

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

COUNT = 300
VALUES = [f"value {number} ".encode() * 60 for number in range(COUNT)]
CLIENT_LISTENERS = (TRUSTING, MUTUAL)
PATIENCE_S = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    with tls_cluster(tmp_path_factory.mktemp("tls")) as made:
        yield made


@pytest.fixture
def topic(cluster: TlsCluster) -> str:
    name = f"over-tls-{uuid.uuid4().hex[:8]}"
    admin = AdminClient(cluster.settings())
    admin.create_topics([NewTopic(name, 3, 3)])[name].result(PATIENCE_S)
    return name


def context(cluster: TlsCluster, listener: str) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(cluster.authority.certificate_path))
    if listener == MUTUAL:
        made.load_cert_chain(cluster.client.certificate, cluster.client.key)
    return made


def produce(cluster: TlsCluster, topic: str, listener: str = MUTUAL) -> None:
    producer = confluent_kafka.Producer({**cluster.settings(listener), "acks": "all"})
    for number, value in enumerate(VALUES):
        producer.produce(topic, value, partition=number % 3)
    assert producer.flush(PATIENCE_S) == 0


def consume(cluster: TlsCluster, topic: str, listener: str = MUTUAL) -> list[bytes | None]:
    settings = {"group.id": f"{topic}-{listener}", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(cluster.settings(listener) | settings)
    try:
        consumer.subscribe([topic])
        return [message.value() for message in consumer.consume(COUNT, PATIENCE_S)]
    finally:
        consumer.close()


class TestClients:
    @pytest.mark.parametrize("listener", CLIENT_LISTENERS)
    def test_confluent_kafka(self, cluster: TlsCluster, topic: str, listener: str) -> None:
        produce(cluster, topic, listener)
        assert sorted(map(bytes, filter(None, consume(cluster, topic, listener)))) == sorted(VALUES)

    @pytest.mark.parametrize("listener", CLIENT_LISTENERS)
    def test_aiokafka(self, cluster: TlsCluster, topic: str, listener: str) -> None:
        common = {
            "bootstrap_servers": cluster.bootstrap(listener),
            "security_protocol": "SSL",
            "ssl_context": context(cluster, listener),
        }

        async def main() -> list[bytes]:
            async with aiokafka.AIOKafkaProducer(acks="all", **common) as producer:
                for value in VALUES:
                    await producer.send(topic, value)
            consumer = aiokafka.AIOKafkaConsumer(
                topic, group_id=f"{topic}-aio", auto_offset_reset="earliest", **common
            )
            async with consumer, asyncio.timeout(PATIENCE_S):
                return [(await consumer.getone()).value for _ in VALUES]

        assert sorted(asyncio.run(main())) == sorted(VALUES)

    @pytest.mark.parametrize("listener", CLIENT_LISTENERS)
    def test_kafka_python(self, cluster: TlsCluster, topic: str, listener: str) -> None:
        common = {
            "bootstrap_servers": cluster.bootstrap(listener).split(","),
            "security_protocol": "SSL",
            "ssl_context": context(cluster, listener),
        }
        producer = kafka.KafkaProducer(acks="all", **common)
        for value in VALUES:
            producer.send(topic, value)
        producer.flush(PATIENCE_S)
        producer.close()
        consumer = kafka.KafkaConsumer(
            topic,
            group_id=f"{topic}-python",
            auto_offset_reset="earliest",
            consumer_timeout_ms=PATIENCE_S * 1000,
            **common,
        )
        found = [next(consumer).value for _ in VALUES]
        consumer.close()
        assert sorted(found) == sorted(VALUES)

    @pytest.mark.skipif(JARS is None, reason="TIDELOG_TEST_JARS names no directory with Kafka's jars")
    @pytest.mark.parametrize("store", ["PEM", "PKCS12"])
    def test_java(self, cluster: TlsCluster, topic: str, tmp_path: Path, store: str) -> None:
        tls = cluster.authority.directory
        lines = {
            "security.protocol": "SSL",
            "ssl.keystore.type": store,
            "ssl.truststore.type": store,
            "ssl.keystore.location": tls / ("alice.pem" if store == "PEM" else "alice.p12"),
            "ssl.truststore.location": tls / ("ca.pem" if store == "PEM" else "ca.p12"),
        }
        if store == "PKCS12":
            lines |= {"ssl.keystore.password": PASSWORD, "ssl.truststore.password": PASSWORD}
        properties = tmp_path / "client.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        place = ["--bootstrap-server", cluster.bootstrap(MUTUAL), "--topic", topic]
        records = [f"line {number}" for number in range(50)]
        java(PRODUCER, *place, "--command-config", str(properties), stdin="\n".join(records) + "\n")
        out = java(
            CONSUMER, *place, "--from-beginning", "--command-config", str(properties),
            "--max-messages", "50", "--timeout-ms", "60000",
        )  # fmt: skip
        assert sorted(out.splitlines()) == sorted(records)


class TestAddresses:
    @pytest.mark.parametrize("listener", CLIENT_LISTENERS)
    def test_clients_are_told_those_of_their_own_listener(self, cluster: TlsCluster, listener: str) -> None:
        told = AdminClient(cluster.settings(listener)).list_topics(timeout=PATIENCE_S).brokers
        assert {node: broker.port for node, broker in told.items()} == {
            number: cluster.port(listener, number) for number in (1, 2, 3)
        }

    def test_and_by_a_plain_listener_the_plain_ones(self, cluster: TlsCluster) -> None:
        admin = AdminClient({"bootstrap.servers": cluster.cluster.bootstrap})
        told = admin.list_topics(timeout=PATIENCE_S).brokers
        assert {broker.port for broker in told.values()} == {broker.port for broker in cluster.cluster}

    def test_the_coordinator_of_a_group_too(self, cluster: TlsCluster, topic: str) -> None:
        produce(cluster, topic)
        consume(cluster, topic)
        admin, group = AdminClient(cluster.settings(MUTUAL)), f"{topic}-{MUTUAL}"
        described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
        ports = {cluster.port(MUTUAL, number) for number in (1, 2, 3)}
        assert described.coordinator.port in ports


class TestRefusals:
    def refused(self, cluster: TlsCluster, settings: dict[str, Any]) -> None:
        with pytest.raises(confluent_kafka.KafkaException):
            AdminClient(settings).list_topics(timeout=3)

    def test_a_client_without_a_certificate(self, cluster: TlsCluster) -> None:
        settings = cluster.settings(TRUSTING) | {"bootstrap.servers": cluster.bootstrap(MUTUAL)}
        self.refused(cluster, settings)

    def test_a_certificate_that_has_expired(self, cluster: TlsCluster) -> None:
        expired = cluster.authority.issue("late", until=datetime.now(UTC) - timedelta(days=1))
        self.refused(cluster, cluster.settings(MUTUAL, expired))

    def test_a_certificate_of_another_authority(self, cluster: TlsCluster, tmp_path: Path) -> None:
        stranger = Authority(tmp_path, name="Another authority").issue("stranger")
        self.refused(cluster, cluster.settings(MUTUAL, stranger))

    def test_a_client_without_tls(self, cluster: TlsCluster) -> None:
        self.refused(cluster, {"bootstrap.servers": cluster.bootstrap(MUTUAL), "log_level": 0})

    def test_a_client_that_knows_the_broker_by_another_name(self, cluster: TlsCluster) -> None:
        settings = cluster.settings(TRUSTING)
        # 127.0.0.2 is this machine, too, but no certificate names it.
        self.refused(cluster, settings | {"bootstrap.servers": f"127.0.0.2:{cluster.port(TRUSTING)}"})

    def test_nothing_else_is_disturbed(self, cluster: TlsCluster, topic: str) -> None:
        idle = [socket.create_connection(("127.0.0.1", cluster.port(MUTUAL))) for _ in range(30)]
        for number, each in enumerate(idle):
            each.sendall(b"\x16\x03\x01\x02\x00\x01"[: number % 7])
        produce(cluster, topic)
        assert len(consume(cluster, topic)) == COUNT
        for each in idle:
            each.close()


class TestBrokers:
    def test_their_links_are_encrypted(self, cluster: TlsCluster, topic: str) -> None:
        """What the followers fetched is there, and a plain connection to their listener gets nothing."""
        produce(cluster, topic)
        with socket.create_connection(("127.0.0.1", cluster.port(BROKERS)), timeout=PATIENCE_S) as plain:
            plain.sendall(bytes.fromhex("0000000f 0012 0000 00000001 0005") + b"hello")
            assert b"hello" not in plain.recv(1000)
        view = cluster.cluster.view(topic)
        assert all(len(partition.in_sync) == 3 for partition in view.topics[topic])

    def test_a_killed_broker_is_replaced_and_comes_back(self, cluster: TlsCluster, topic: str) -> None:
        leader = cluster.cluster.leader_of(topic)
        leader.kill()
        try:
            produce(cluster, topic)
        finally:
            cluster.cluster.start()
        assert len(consume(cluster, topic)) == COUNT

    def serial(self, cluster: TlsCluster) -> str:
        made = context(cluster, TRUSTING)
        with (
            socket.create_connection(("127.0.0.1", cluster.port(TRUSTING))) as plain,
            made.wrap_socket(plain, server_hostname="localhost") as wrapped,
        ):
            certificate = wrapped.getpeercert()
            assert certificate is not None
            return str(certificate["serialNumber"])

    def test_new_certificates_are_used_without_a_restart(self, cluster: TlsCluster) -> None:
        (broker, *_) = cluster.cluster
        before, pid = self.serial(cluster), broker.pid
        cluster.authority.issue("broker-1", ("localhost", "127.0.0.1"))
        os.kill(pid, signal.SIGHUP)
        cluster.cluster.wait_for(
            lambda: self.serial(cluster) != before, "the old certificate is still used", PATIENCE_S
        )
        assert broker.pid == pid
        AdminClient(cluster.settings()).list_topics(timeout=PATIENCE_S)


def test_controllers_of_their_own_with_tls(tmp_path: Path) -> None:
    """Brokers have no listener for controllers, and speak TLS to those of the controllers."""
    authority = Authority(tmp_path / "tls")
    store = authority.issue("node", ("localhost", "127.0.0.1"))
    cluster = Cluster(tmp_path)
    *brokers, controller = cluster
    port = free_port()
    common: dict[str, Setting] = {
        "controller.quorum.voters": f"3@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SSL,CONTROLLER:SSL",
        "ssl.keystore.location": str(store.pem),
        "ssl.truststore.location": str(authority.certificate_path),
        "ssl.client.auth": "required",
    }
    for broker in brokers:
        broker.settings |= common | {
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://{broker.bootstrap},BROKERS://127.0.0.1:{free_port()}",
            "inter.broker.listener.name": "BROKERS",
        }
    controller.settings |= common | {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
    }
    try:
        for node in cluster:
            node.launch()
        cluster.wait_for(
            lambda: all(is_ready(broker.host, broker.port, 2) for broker in brokers),
            "the brokers are not ready",
        )
        settings: dict[str, Any] = {"bootstrap.servers": brokers[0].bootstrap}
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("orders", 2, 2)])["orders"].result(PATIENCE_S)
        producer = confluent_kafka.Producer({**settings, "acks": "all"})
        for value in VALUES:
            producer.produce("orders", value)
        assert producer.flush(PATIENCE_S) == 0
    finally:
        cluster.kill()


class TestStart:
    def run(self, tmp_path: Path, **settings: str) -> str:
        """What a broker says that does not start."""
        text = "".join(f'"{name}" = "{value}"\n' for name, value in settings.items())
        config = tmp_path / "broker.toml"
        config.write_text(f'"node.id" = 1\n"log.dir" = "data"\n{text}')
        command = [sys.executable, "-m", "tidelog", "broker", "--config", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 1
        return done.stdout + done.stderr

    def test_without_a_certificate(self, tmp_path: Path) -> None:
        said = self.run(tmp_path, listeners=f"SSL://127.0.0.1:{free_port()}")
        assert "a TLS listener needs a certificate" in said

    def test_where_others_reach_it_without_authentication(self, tmp_path: Path) -> None:
        port = free_port()
        said = self.run(
            tmp_path,
            listeners=f"PLAINTEXT://0.0.0.0:{port}",
            **{"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"},
        )
        assert "allow.insecure.listeners=true" in said


@pytest.mark.slow
def test_a_storm_of_handshakes_fences_nobody(cluster: TlsCluster, topic: str) -> None:
    """A thousand connections a second for a few seconds, beside writes."""
    made = context(cluster, TRUSTING)
    port = cluster.port(TRUSTING)
    before = {partition.leader_epoch for partition in cluster.cluster.view(topic).topics[topic]}
    fenced = [broker.log_text().count("is fenced") for broker in cluster.cluster]

    async def one() -> int:
        try:
            _, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=made, server_hostname="localhost"
            )
        except (OSError, ssl.SSLError):
            return 0
        writer.transport.abort()
        return 1

    async def storm() -> int:
        loop = asyncio.get_running_loop()
        start = loop.time()
        tasks = []
        for tick in range(500):
            tasks += [asyncio.create_task(one()) for _ in range(10)]
            await asyncio.sleep(max(0.0, 0.01 * (tick + 1) - (loop.time() - start)))
        return sum(await asyncio.gather(*tasks))

    async def main() -> int:
        writes = asyncio.to_thread(produce, cluster, topic)
        completed, _ = await asyncio.gather(storm(), writes)
        return completed

    assert asyncio.run(main()) > 0
    after = {partition.leader_epoch for partition in cluster.cluster.view(topic).topics[topic]}
    assert after == before
    assert [broker.log_text().count("is fenced") for broker in cluster.cluster] == fenced
    assert len(consume(cluster, topic)) == COUNT
