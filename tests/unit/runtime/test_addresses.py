"""What a node tells others about where it can be reached."""

import socket
from collections.abc import Iterator

import pytest

from tidelog.config import BrokerConfig, Listener, SecurityProtocol
from tidelog.config.kinds import Raw
from tidelog.controller.endpoints import Endpoint
from tidelog.runtime.addresses import Addresses, advertised_addresses, ip_of


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    made = [socket.socket() for _ in range(3)]
    for each in made:
        each.bind(("127.0.0.1", 0))
    yield made
    for each in made:
        each.close()


def ports(sockets: list[socket.socket]) -> list[int]:
    return [each.getsockname()[1] for each in sockets]


def addresses(values: dict[str, Raw], sockets: list[socket.socket]) -> tuple[Addresses, list[Listener]]:
    config = BrokerConfig.parse(values)
    advertised = advertised_addresses(config, sockets[: len(config.listeners)])
    return Addresses.of(config, advertised), advertised


def test_free_ports_become_known(sockets: list[socket.socket]) -> None:
    found, advertised = addresses({"listeners": "A://127.0.0.1:0,B://localhost:0"}, sockets)
    first, second, _ = ports(sockets)
    assert list(map(str, advertised)) == [f"A://127.0.0.1:{first}", f"B://localhost:{second}"]
    assert found.endpoints == (Endpoint("A", "127.0.0.1", first), Endpoint("B", "localhost", second))
    assert (found.peers, found.controller) == (advertised[0], advertised[0])


def test_each_purpose_has_its_listener(sockets: list[socket.socket]) -> None:
    values: dict[str, Raw] = {
        "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0,CONTROLLERS://127.0.0.1:0",
        "advertised.listeners": "CLIENTS://queue.example.org:9092,BROKERS://10.0.0.1:9093",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,BROKERS:SSL,CONTROLLERS:SSL",
        "inter.broker.listener.name": "BROKERS",
        "controller.listener.names": "CONTROLLERS",
    }
    found, _ = addresses(values, sockets)
    assert found.peers == Listener("BROKERS", "10.0.0.1", 9093, SecurityProtocol.SSL)
    assert found.controller == Listener("CONTROLLERS", "127.0.0.1", ports(sockets)[2], SecurityProtocol.SSL)
    # Clients are not told of the controllers' listener.
    assert found.endpoints == (
        Endpoint("CLIENTS", "queue.example.org", 9092, SecurityProtocol.SASL_SSL),
        Endpoint("BROKERS", "10.0.0.1", 9093, SecurityProtocol.SSL),
    )


def test_a_controllers_listener_without_an_address_is_reached_like_the_brokers(
    sockets: list[socket.socket],
) -> None:
    values: dict[str, Raw] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://:0",
        "controller.listener.names": "CONTROLLER",
    }
    found, advertised = addresses(values, sockets)
    assert found.controller == found.peers == advertised[0]


@pytest.mark.parametrize(
    ("peer", "ip"),
    [
        (("10.0.0.9", 1), "10.0.0.9"),
        (("::ffff:10.0.0.9", 1, 0, 0), "10.0.0.9"),
        (("::1", 1, 0, 0), "::1"),
        (("::ffff:0:1", 1, 0, 0), "::ffff:0:1"),
        (("fe80::1%eth0", 1, 0, 2), "fe80::1%eth0"),
        (None, "?"),
    ],
)
def test_the_address_of_a_client(peer: tuple[object, ...] | None, ip: str) -> None:
    assert ip_of(peer) == ip
