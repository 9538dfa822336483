"""Which addresses a command asks."""

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tidelog.cli import main, nearby, reach
from tidelog.cli.failure import CommandFailed
from tidelog.cli.options import Bootstrap
from tidelog.cli.reach import DEFAULT_BOOTSTRAP, Address, Silent, addresses_of, reachable, refused, unanswered


@pytest.fixture
def silent() -> Iterator[Address]:
    """As a frozen process, or one that still starts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Address("127.0.0.1", server.getsockname()[1])


def answering(server: socket.socket, answer: bytes) -> None:
    """Give each client this answer, until the server is closed."""
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client:
            asked = client.recv(100)
            client.sendall(answer.replace(b"ID", asked[8:12]))


@pytest.fixture
def start() -> Iterator[Callable[[bytes], Address]]:
    servers = []

    def run(answer: bytes) -> Address:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        threading.Thread(target=answering, args=(server, answer), daemon=True).start()
        return Address("127.0.0.1", server.getsockname()[1])

    yield run
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


@pytest.fixture
def broker(start: Callable[[bytes], Address]) -> Address:
    return start(struct.pack(">i", 10) + b"ID" + bytes(6))


@pytest.fixture
def closed() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Address("127.0.0.1", server.getsockname()[1])


def write_config(directory: Path, broker: int, port: int) -> None:
    path = directory / f"broker-{broker}" / "broker.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'"node.id" = {broker}\n"listeners" = "PLAINTEXT://127.0.0.1:{port}"\n')


def test_without_bootstrap_only_the_cluster_of_the_directory_is_asked(tmp_path: Path) -> None:
    """Another cluster may have the usual ports, and a command must not change that one."""
    write_config(tmp_path, 1, 21001)
    write_config(tmp_path, 2, 21002)
    ports = [address.port for address in addresses_of(DEFAULT_BOOTSTRAP, tmp_path)]
    assert ports == [21001, 21002]
    assert addresses_of(DEFAULT_BOOTSTRAP, tmp_path / "none")[0] == Address("127.0.0.1", 9092)


@pytest.mark.parametrize(
    ("arguments", "variables", "ports"),
    [
        ([], {}, [21001]),
        (["--bootstrap", DEFAULT_BOOTSTRAP], {}, [9092]),
        ([], {"TIDELOG_BOOTSTRAP": DEFAULT_BOOTSTRAP}, [9092]),
    ],
)
def test_who_names_the_default_address_gets_that_one(
    arguments: list[str],
    variables: dict[str, str],
    ports: list[int],
    tmp_path: Path,
) -> None:
    write_config(tmp_path, 1, 21001)
    found: list[int] = []
    app = typer.Typer()

    @app.command()
    def ask(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
        found.extend(address.port for address in addresses_of(bootstrap, tmp_path))

    assert CliRunner().invoke(app, arguments, env=variables).exit_code == 0
    assert found == ports


def test_a_broken_file_is_left_to_the_broker(tmp_path: Path) -> None:
    write_config(tmp_path, 1, 21001)
    (tmp_path / "broker-1" / "broker.toml").write_text("no toml")
    assert [address.port for address in addresses_of(DEFAULT_BOOTSTRAP, tmp_path)] == [9092, 9093, 9094]


def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *ports: int) -> Path:
    """The directory of a cluster of `tidelog up`, in the current one."""
    monkeypatch.chdir(tmp_path)
    for number, port in enumerate(ports, 1):
        write_config(tmp_path / ".tidelog", number, port)
    return tmp_path / ".tidelog"


def test_another_cluster_is_named_and_not_asked(
    tmp_path: Path, closed: Address, broker: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    here(tmp_path, monkeypatch, closed.port)
    monkeypatch.setattr(reach, "USUAL_PORTS", (broker.port,))
    sentence = (
        rf"cluster in \.tidelog answers at {closed} .*; `tidelog up` starts it\. .* --bootstrap {broker}"
    )
    with pytest.raises(CommandFailed, match=sentence):
        reachable(DEFAULT_BOOTSTRAP)


def test_tidelog_up_is_not_proposed_where_it_runs(
    tmp_path: Path, closed: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = here(tmp_path, monkeypatch, closed.port, closed.port)
    monkeypatch.setattr(reach, "USUAL_PORTS", ())
    # This process has Tidelog in its command line only by chance.
    monkeypatch.setattr(nearby, "is_tidelog", lambda pid: pid == os.getpid())
    (directory / "up.pid").write_text(f"{os.getpid()}\n")
    with pytest.raises(
        CommandFailed, match=r"; `tidelog broker start 1` and `tidelog broker start 2` start them\.$"
    ):
        reachable(DEFAULT_BOOTSTRAP)
    (directory / "broker-2" / "broker.pid").write_text(f"{os.getpid()}\n")
    with pytest.raises(CommandFailed, match=r"; `tidelog broker start 1` starts it\.$"):
        reachable(DEFAULT_BOOTSTRAP)


def test_a_broker_of_the_directory_that_waits_for_the_controllers(
    tmp_path: Path, start: Callable[[bytes], Address], closed: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = start(b"")
    directory = here(tmp_path, monkeypatch, waits.port, closed.port)
    monkeypatch.setattr(nearby, "is_tidelog", lambda pid: pid == os.getpid())
    (directory / "broker-1" / "broker.pid").write_text(f"{os.getpid()}\n")
    sentence = rf"{waits} closes connections.*of the controllers; `tidelog broker start 2` starts it\.$"
    with pytest.raises(CommandFailed, match=sentence):
        reachable(DEFAULT_BOOTSTRAP)


def test_a_profile_that_points_nowhere_is_named(
    tmp_path: Path, closed: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["profile", "add", "far", "--bootstrap", str(closed)]) == 0
    assert main(["profile", "use", "far"]) == 0
    with pytest.raises(CommandFailed, match=rf"No broker of profile 'far' answers at {closed}.*profile use"):
        reachable(DEFAULT_BOOTSTRAP)


def test_with_bootstrap_only_that(tmp_path: Path) -> None:
    write_config(tmp_path, 1, 21001)
    assert addresses_of("one:1,two:2", tmp_path) == [("one", 1), ("two", 2)]
    with pytest.raises(CommandFailed, match="--bootstrap"):
        addresses_of("nonsense", tmp_path)


def test_dead_brokers_are_not_asked(broker: Address, closed: Address) -> None:
    assert reachable(f"{closed},{broker}") == [broker]
    assert list(refused([closed, broker])) == [closed]


@pytest.mark.slow
def test_nor_are_frozen_ones(broker: Address, silent: Address, closed: Address) -> None:
    assert reachable(f"{silent},{broker}") == [broker]
    found = unanswered([silent, broker, closed], 0.5, tls=None)
    assert set(found) == {silent, closed}
    assert isinstance(found[silent], Silent)
    assert isinstance(found[closed], ConnectionRefusedError)


def test_only_frozen_ones(silent: Address, closed: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "FIRST_RESPONSE_S", 0.2)
    with pytest.raises(CommandFailed, match=f"{silent} accepts connections and does not answer"):
        reachable(f"{closed},{silent}")


def test_a_broker_that_waits_for_the_controllers(start: Callable[[bytes], Address]) -> None:
    """It accepts connections, for other nodes, and closes those of clients."""
    address = start(b"")
    with pytest.raises(
        CommandFailed, match=f"{address} closes connections: the broker still starts, or waits"
    ):
        reachable(str(address))


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request"])
def test_something_else_listens_there(answer: bytes, start: Callable[[bytes], Address]) -> None:
    address = start(answer)
    with pytest.raises(CommandFailed, match=f"{address} does not respond like a Kafka broker"):
        reachable(str(address))


def test_no_broker_at_all(closed: Address) -> None:
    with pytest.raises(CommandFailed, match=rf"No broker answers at {closed} \(connection refused\)"):
        reachable(str(closed))
