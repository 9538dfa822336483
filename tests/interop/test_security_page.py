"""docs/security.md, "Three machines", as it stands there: machines are addresses of the loopback network."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.client.settings import SaslSettings, Security, TlsSettings
from tidelog.lab.local.broker import Broker, free_port

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
MACHINES = (1, 2, 3)
ALICE = "correct horse battery"
ADMIN = "choose-a-long-password"


def section() -> str:
    (part,) = re.findall(r"^## Three machines\n(.*?)(?=^## )", PAGE.read_text(), re.M | re.S)
    return str(part)


def blocks(kind: str) -> list[str]:
    return [text for found, text in re.findall(r"```(\w*)\n(.*?)```", section(), re.S) if found == kind]


class Here:
    """The page's addresses and ports on this machine."""

    def __init__(self) -> None:
        self.ports = {"9092": str(free_port()), "9093": str(free_port())}

    def __call__(self, text: str) -> str:
        for port, ours in self.ports.items():
            text = text.replace(f":{port}", f":{ours}")
        return text.replace("10.0.0.1", "127.0.57.1")


class Host(Broker):
    """A machine: the page's command in a directory of its own, with the page's settings."""

    def write_config(self) -> None:
        """Already there."""

    def await_answer(self) -> None:
        self._await_response(time.monotonic() + 30)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Host]]]:
    root, here = tmp_path_factory.mktemp("page"), Here()
    certificates, start, *_ = blocks("console")
    run(root, here(certificates).removeprefix("$ ").strip())
    assert start == "$ tidelog broker --config broker.toml\n"
    (settings,), (users,), (properties,) = blocks("toml"), blocks(""), blocks("properties")
    hosts = []
    for number in MACHINES:
        directory = root / f"machine-{number}"
        directory.mkdir()
        for name in (f"broker-{number}.pem", "ca.pem"):
            shutil.copy(root / "tls" / name, directory)
        mine = settings.replace('"node.id" = 1', f'"node.id" = {number}').replace(
            "broker-1", f"broker-{number}"
        )
        mine = re.sub(r"//10\.0\.0\.11", f"//10.0.0.1{number}", mine)
        (directory / "broker.toml").write_text(here(mine))
        (directory / "users").write_text(users)
        (directory / "users").chmod(0o600)
        host = Host(directory, port=int(here.ports["9092"]), host=f"127.0.57.1{number}")
        host.security = Security(
            TlsSettings(trusted_path=str(root / "tls" / "ca.pem")),
            SaslSettings("SCRAM-SHA-256", "admin", ADMIN),
        )
        hosts.append(host)
    shutil.copy(root / "tls" / "ca.pem", root)
    (root / "alice-password.txt").write_text(f"{ALICE}\n")
    (root / "admin.properties").write_text(here(properties))
    alice = here(properties).replace('"admin"', '"alice"').replace(ADMIN, ALICE)
    (root / "alice.properties").write_text(alice)
    try:
        for host in hosts:
            host.launch()
        for host in hosts:
            host.await_answer()
        yield root, hosts
        for host in hosts:
            host.close()
    finally:
        for host in hosts:
            host.kill()


def run(root: Path, command: str, *, code: int = 0) -> str:
    """In a shell, as a reader does."""
    shell = f'tidelog() {{ {shlex.quote(sys.executable)} -m tidelog "$@"; }}\n{command}'
    done = subprocess.run(
        ["bash", "-c", shell],
        cwd=root,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, (command, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_the_page_works_as_it_stands_there(home: tuple[Path, list[Host]]) -> None:
    root, hosts = home
    _, _, administration, use = blocks("console")
    said = [run(root, line.removeprefix("$ ")) for line in administration.splitlines()]
    assert "Healthy: 3 brokers" in said[0]
    assert "User:alice" in said[-1]
    assert "hello" in [run(root, line.removeprefix("$ ")) for line in use.splitlines()][-1]
    # What the page says that does not work.
    assert "AUTHORIZATION_FAILED" in run(root, "tidelog topic create mine --config alice.properties", code=1)
    stranger = root / "stranger.properties"
    stranger.write_text((root / "alice.properties").read_text().replace(ALICE, "guess"))
    assert "rejected the user 'alice'" in run(root, "tidelog topic list --config stranger.properties", code=1)
    logs = "".join(host.log_text() for host in hosts)
    assert not [secret for secret in (ALICE, ADMIN) if secret in logs]
