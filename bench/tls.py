"""Clusters whose links are all encrypted: those of clients, between brokers, and to controllers.

Each broker has a plain listener as well, on which the bench creates topics and looks at the cluster.
Everybody has the same certificates, with keys of the curve P-256, and asks the other brokers for theirs.
"""

from collections.abc import Iterable
from pathlib import Path

from bench.cluster import ClusterServer
from bench.kafka import KafkaServer
from bench.process import free_port
from bench.servers import TidelogServer
from tidelog.lab.local.certificates import LOCAL_HOSTS, Authority
from tidelog.lab.local.secret import NAME as SECRET_NAME
from tidelog.lab.local.secret import SETTING as SECRET
from tidelog.lab.local.secret import make_secret

BROKERS = 3


class Certificates:
    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        broker = authority.issue("broker", LOCAL_HOSTS)
        self.stores = {
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(broker.pem),
            "ssl.truststore.location": str(authority.certificate_path),
        }
        self.client = {"security.protocol": "ssl", "ssl.ca.location": str(authority.certificate_path)}


class TlsClusterServer(ClusterServer):
    """``bootstrap`` is plain, ``tls_bootstrap`` is for the load."""

    tls_bootstrap = ""


def tidelog_tls(directory: Path, certificates: Certificates) -> ClusterServer:
    ports = {node: (free_port(), free_port()) for node in range(1, BROKERS + 1)}
    voters = ",".join(f"{node}@127.0.0.1:{tls}" for node, (_, tls) in ports.items())
    make_secret(directory / SECRET_NAME)  # The certificates are the same for everybody: they name no node.
    members = [
        TidelogServer(
            directory / f"broker-{node}",
            node_id=node,
            port=plain,
            more={
                "listeners": f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls}",
                "inter.broker.listener.name": "SSL",
                "controller.quorum.voters": voters,
                "ssl.client.auth": "requested",
                SECRET: str(directory / SECRET_NAME),
                **certificates.stores,
            },
        )
        for node, (plain, tls) in ports.items()
    ]
    server = TlsClusterServer("tidelog", members)
    server.tls_bootstrap = _bootstrap(tls for _, tls in ports.values())
    return server


def kafka_tls(directory: Path, jar_directory: Path, certificates: Certificates) -> ClusterServer:
    controllers = {node: free_port() for node in range(1, BROKERS + 1)}
    tls_ports = []
    members = []
    for node, controller in controllers.items():
        member = KafkaServer(
            directory / f"broker-{node}", jar_directory, node_id=node, controllers=controllers
        )
        tls = free_port()
        clients = f"PLAINTEXT://127.0.0.1:{member.port},SSL://127.0.0.1:{tls}"
        member.add_settings(
            {
                "listeners": f"{clients},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": clients,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:SSL",
                "inter.broker.listener.name": "SSL",
                "ssl.client.auth": "requested",
                **certificates.stores,
            }
        )
        members.append(member)
        tls_ports.append(tls)
    server = TlsClusterServer("kafka", members)
    server.tls_bootstrap = _bootstrap(tls_ports)
    return server


def _bootstrap(ports: Iterable[int]) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports)
