"""docs/production.md, as it stands there: each command is tried on three hosts with an address each.

Hosts are network namespaces. What belongs to the machine and not to Tidelog is played: ``systemctl`` starts
and stops what the unit says, and waits for its notification.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.testing import Network, NetworkUnavailable

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "production.md"
HOSTS = {"a": 1, "b": 2, "c": 3}
# install, users, owners and files of the system
MACHINE = ("useradd", "chown", "python3", "/opt/tidelog/bin/pip", "ln", "cp")
TIMEOUT_S = 60


def commands(section: str) -> list[str]:
    """Those of the console blocks in a section, one per line, without prompts."""
    text = PAGE.read_text()
    (part,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    lines = [
        line.removeprefix("$ ")
        for block in re.findall(r"```console\n(.*?)```", part, flags=re.DOTALL)
        for line in block.replace("\\\n", "").splitlines()
    ]
    return [each.strip() for line in lines for each in line.split("&&")]


class Machine:
    """One host, its files, and what its service manager does."""

    def __init__(self, number: int, network: Network, root: Path) -> None:
        self.number = number
        self._host = network.hosts[number]
        self._root = root / f"host-{number}"
        self._root.mkdir()
        self._process: subprocess.Popen[bytes] | None = None
        self._notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notified.bind(str(self._root / "notify"))
        self._notified.settimeout(TIMEOUT_S)

    def run(self, command: str, addresses: dict[str, str]) -> None:
        words = [self._here(word, addresses) for word in shlex.split(command)]
        if words[0] == "tidelog":
            assert main(words[1:]) == 0, command
        elif words[0] == "systemctl":
            self._systemctl(words[1])
        else:
            assert words[0] in MACHINE, f"{command} is not tried"

    def _here(self, word: str, addresses: dict[str, str]) -> str:
        """The page's hosts and directories as those of the test."""
        word = re.sub(r"\b([abc]):9092", lambda found: f"{addresses[found[1]]}:9092", word)
        for directory in ("/etc/tidelog", "/var/lib/tidelog"):
            word = word.replace(directory, str(self._root / directory.lstrip("/")))
        return word

    def _systemctl(self, verb: str) -> None:
        if verb in ("stop", "restart"):
            self.stop()
        if verb in ("start", "restart"):
            unit = (self._root / "etc/tidelog" / "tidelog.service").read_text()
            (command,) = re.findall(r"^ExecStart=(.*)$", unit, flags=re.MULTILINE)
            words = [*self._host.prefix, *shlex.split(command)]
            variables = {**os.environ, "NOTIFY_SOCKET": str(self._root / "notify")}
            with (self._root / "journal").open("ab") as journal:
                self._process = subprocess.Popen(words, env=variables, stdout=journal, stderr=journal)
        if verb == "restart":
            self.await_ready()

    def await_ready(self) -> None:
        while self._notified.recv(100) != b"READY=1":
            pass

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            assert self._process.wait(TIMEOUT_S) == 0, (self._root / "journal").read_text()
            self._process = None

    def close(self) -> None:
        self._notified.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        network = Network(len(HOSTS)).__enter__()
    except NetworkUnavailable as error:
        pytest.skip(str(error))
    yield network
    network.close()


@pytest.fixture
def machines(network: Network, tmp_path: Path) -> Iterator[list[Machine]]:
    machines = [Machine(number, network, tmp_path) for number in HOSTS.values()]
    yield machines
    for machine in machines:
        machine.close()


def test_from_nothing_to_a_cluster(
    network: Network, machines: list[Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = {name: network.hosts[number].address for name, number in HOSTS.items()}
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    for name, machine in zip(HOSTS, machines, strict=True):
        _set_up(machine, name, addresses)
    for machine in machines:
        machine.await_ready()
    for command in commands("Check"):
        machines[0].run(command, addresses)
    for machine in machines:
        for command in commands("Rolling restart"):
            machine.run(command, addresses)
    for command in commands("When something is wrong"):
        machines[0].run(command, addresses)
    _probe(addresses.values())
    for machine in machines:
        machine.stop()


def _set_up(machine: Machine, name: str, addresses: dict[str, str]) -> None:
    """The page shows what the first host types."""
    first, own = "--node-id 1 --address a:", f"--node-id {machine.number} --address {name}:"
    typed = commands("Install") + commands("Configure")
    assert sum(first in command for command in typed) == 1
    for command in typed:
        machine.run(command.replace(first, own), addresses)


def _probe(addresses: Iterable[str]) -> None:
    for address in addresses:
        for path in ("/ready", "/live", "/health", "/metrics"):
            assert urllib.request.urlopen(f"http://{address}:9644{path}", timeout=TIMEOUT_S).status == 200
