"""A cluster whose brokers have several listeners: plain for the test's own look at it, three with TLS."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidelog.lab.local.broker import free_port
from tidelog.lab.local.certificates import Authority, Issued
from tidelog.testing import Broker, Cluster

PASSWORD = "changeit"
NAMES = "RULE:^CN=([^,]+).*$/$1/"
TRUSTING, MUTUAL, BROKERS = "TRUSTING", "MUTUAL", "BROKERS"
LISTENERS = (TRUSTING, MUTUAL, BROKERS)


class TlsCluster:
    """``TRUSTING`` asks clients for no certificate, ``MUTUAL`` does, ``BROKERS`` is for other brokers."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "tls")
        self.client = self.authority.issue("alice", password=PASSWORD)
        self.trust_store = self.authority.trust_store(PASSWORD)
        self.cluster = Cluster(directory)
        self.ports = {broker: {name: free_port() for name in LISTENERS} for broker in self.cluster}
        voters = ",".join(
            f"{number}@127.0.0.1:{ports[BROKERS]}"
            for number, ports in enumerate(self.ports.values(), start=1)
        )
        self.stores: dict[Broker, Issued] = {}
        for number, (broker, ports) in enumerate(self.ports.items(), start=1):
            issued = self.authority.issue(f"broker-{number}", ("localhost", "127.0.0.1"))
            self.stores[broker] = issued
            listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
            broker.settings |= {
                "listeners": f"PLAINTEXT://{broker.bootstrap},{listeners}",
                "listener.security.protocol.map": f"{TRUSTING}:SSL,{MUTUAL}:SSL,{BROKERS}:SSL",
                "inter.broker.listener.name": BROKERS,
                "controller.quorum.voters": voters,
                "ssl.keystore.location": str(issued.pem),
                "ssl.truststore.location": str(self.authority.certificate_path),
                "ssl.principal.mapping.rules": NAMES,
                "listener.name.mutual.ssl.client.auth": "required",
                "listener.name.brokers.ssl.client.auth": "required",
            }

    def bootstrap(self, listener: str) -> str:
        return ",".join(f"localhost:{ports[listener]}" for ports in self.ports.values())

    def port(self, listener: str, number: int = 1) -> int:
        return list(self.ports.values())[number - 1][listener]

    def settings(self, listener: str = MUTUAL, client: Issued | None = None) -> dict[str, Any]:
        """Of librdkafka."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap(listener),
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.authority.certificate_path),
            "log_level": 0,
        }
        if listener == MUTUAL:
            shown = client or self.client
            settings |= {
                "ssl.certificate.location": str(shown.certificate),
                "ssl.key.location": str(shown.key),
            }
        return settings


@contextmanager
def tls_cluster(directory: Path) -> Iterator[TlsCluster]:
    made = TlsCluster(directory)
    try:
        made.cluster.start()
        yield made
        made.cluster.stop()
    finally:
        made.cluster.kill()
