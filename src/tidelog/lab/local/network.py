"""Separate hosts for the brokers of a cluster: Linux network namespaces on one bridge.

Owns namespaces, virtual cables and the bridge, and removes them at the end. Each host has its own
address, which the tests' clients reach through the bridge. Needs root and the program ``ip``.

================== ========================================================================================
call               what the host notices
================== ========================================================================================
``unplug``         no packets, no refusals: like a pulled cable, for peers and clients
``part``           the same between two hosts only: clients reach both
``plug``, ``join`` as before; TCP retransmits what it still holds
================== ========================================================================================
"""

import contextlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from types import TracebackType
from typing import Any

# An address without a cable: packets to it are lost silently.
_NOWHERE = "02:00:00:00:00:01"
_NETWORKS = "10.213"


class NetworkUnavailable(Exception):
    """This machine does not allow network namespaces; the message says why."""


class Host:
    """One namespace with one address."""

    def __init__(self, name: str, cable: str, address: str) -> None:
        self.name = name
        self.cable = cable  # the bridge's end of it
        self.address = address

    @property
    def prefix(self) -> list[str]:
        """Prefix of a command that runs it on this host, under the same process id."""
        return ["ip", "netns", "exec", self.name]


class Network:
    """Use as a context manager; ``hosts`` are numbered as the brokers that will run on them."""

    def __init__(self, hosts: int) -> None:
        self._id = f"{os.getpid() % 0xFFFF:04x}{random.randrange(0xFF):02x}"
        self._bridge = f"tl{self._id}"
        self._subnet = ""
        self._count = hosts
        self.hosts: dict[int, Host] = {}

    def __enter__(self) -> "Network":
        if os.geteuid() != 0:
            raise NetworkUnavailable("network namespaces need root")
        if shutil.which("ip") is None:
            raise NetworkUnavailable("the program ip is not installed")
        try:
            self._make_bridge()
            for number in range(1, self._count + 1):
                self._add(number)
        except BaseException as error:
            self.close()
            if isinstance(error, subprocess.CalledProcessError):
                raise NetworkUnavailable(f"ip refused: {error.stderr.strip()}") from None
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for host in self.hosts.values():
            # The namespace would remove its cable, but only some time after the command has returned.
            _ip_quietly("link", "del", host.cable)
            _ip_quietly("netns", "del", host.name)
        self.hosts.clear()
        _ip_quietly("link", "del", self._bridge)

    @property
    def outside(self) -> str:
        """The address of everything that is on no host, such as clients."""
        return f"{self._subnet}.1"

    def unplug(self, number: int) -> None:
        """Disconnect one host from all others."""
        _ip("link", "set", self.hosts[number].cable, "down")

    def plug(self, number: int) -> None:
        _ip("link", "set", self.hosts[number].cable, "up")

    def part(self, one: int, other: int) -> None:
        """Disconnect two hosts from each other."""
        for here, there in ((one, other), (other, one)):
            self._in(here, "neigh", "replace", self.hosts[there].address, "lladdr", _NOWHERE, "dev", "eth0")

    def join(self, one: int, other: int) -> None:
        for here, there in ((one, other), (other, one)):
            self._in(here, "neigh", "del", self.hosts[there].address, "dev", "eth0")

    def lose(self, source: int | None, target: int | None, *, lost: bool) -> None:
        """Whether all packets from one host to another are lost; None is the outside."""
        place = [] if source is None else ["-n", self.hosts[source].name]
        device = self._bridge if source is None else "eth0"
        address = self.outside if target is None else self.hosts[target].address
        if lost:
            _ip(*place, "neigh", "replace", address, "lladdr", _NOWHERE, "dev", device)
        else:
            _ip(*place, "neigh", "del", address, "dev", device)

    @contextlib.contextmanager
    def unplugged(self, number: int) -> Iterator[None]:
        self.unplug(number)
        try:
            yield
        finally:
            self.plug(number)

    def _make_bridge(self) -> None:
        taken = {
            address["local"].rpartition(".")[0]
            for link in _ip_json("-4", "addr")
            for address in link["addr_info"]
        }
        free = [f"{_NETWORKS}.{n}" for n in range(1, 255) if f"{_NETWORKS}.{n}" not in taken]
        self._subnet = random.choice(free)
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("addr", "add", f"{self._subnet}.1/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")

    def _add(self, number: int) -> None:
        host = Host(f"{self._bridge}h{number}", f"{self._bridge}c{number}", f"{self._subnet}.{10 + number}")
        _ip("netns", "add", host.name)
        self.hosts[number] = host
        _ip("link", "add", host.cable, "type", "veth", "peer", "name", "eth0", "netns", host.name)
        _ip("link", "set", host.cable, "master", self._bridge, "up")
        self._in(number, "addr", "add", f"{host.address}/24", "dev", "eth0")
        self._in(number, "link", "set", "eth0", "up")
        self._in(number, "link", "set", "lo", "up")

    def _in(self, number: int, *words: str) -> None:
        _ip("-n", self.hosts[number].name, *words)


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def _ip_quietly(*words: str) -> None:
    with contextlib.suppress(subprocess.CalledProcessError, OSError):
        _ip(*words)


def _ip_json(*words: str) -> Any:
    return json.loads(_ip("-j", *words) or "[]")
