"""Hosts on a network of their own; needs root."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tidelog.testing import Network, NetworkUnavailable

pytestmark = pytest.mark.slow

LISTEN = """
import socket, sys
with socket.create_server((sys.argv[1], 9092)) as listener:
    print("listening", flush=True)
    while True:
        listener.accept()[0].sendall(b"hello")
"""
CONNECT = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], 9092), 0.5) as connection:
        print(connection.recv(5).decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        network = Network(2).__enter__()
    except NetworkUnavailable as error:
        pytest.skip(str(error))
    yield network
    network.close()


@pytest.fixture
def listener(network: Network) -> Iterator[str]:
    host = network.hosts[1]
    command = [*host.prefix, sys.executable, "-c", LISTEN, host.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        yield host.address
        process.kill()


def reach(address: str, *prefix: str) -> str:
    command = [*prefix, sys.executable, "-c", CONNECT, address]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_hosts_reach_each_other_until_unplugged(network: Network, listener: str) -> None:
    other = network.hosts[2].prefix
    assert (reach(listener), reach(listener, *other)) == ("hello", "hello")
    with network.unplugged(1):
        assert (reach(listener), reach(listener, *other)) == ("TimeoutError", "TimeoutError")
    assert (reach(listener), reach(listener, *other)) == ("hello", "hello")


def test_two_that_are_parted_still_hear_clients(network: Network, listener: str) -> None:
    other = network.hosts[2].prefix
    network.part(1, 2)
    assert (reach(listener), reach(listener, *other)) == ("hello", "TimeoutError")
    network.join(1, 2)
    assert (reach(listener), reach(listener, *other)) == ("hello", "hello")


def test_nothing_is_left_behind() -> None:
    try:
        with Network(1) as network:
            name, cable = network.hosts[1].name, network.hosts[1].cable
    except NetworkUnavailable as error:
        pytest.skip(str(error))
    assert name not in subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout
    assert cable not in subprocess.run(["ip", "link"], capture_output=True, text=True).stdout
