"""Which addresses a command asks."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import DEFAULT_BOOTSTRAP, Address, addresses_of, reachable, refused


@pytest.fixture
def listening() -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Address("127.0.0.1", server.getsockname()[1])


@pytest.fixture
def closed() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Address("127.0.0.1", server.getsockname()[1])


def write_config(directory: Path, broker: int, port: int) -> None:
    path = directory / f"broker-{broker}" / "broker.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f'"node.id" = {broker}\n"listeners" = "PLAINTEXT://127.0.0.1:{port}"\n')


def test_without_bootstrap_all_brokers_of_the_directory_are_tried(tmp_path: Path) -> None:
    write_config(tmp_path, 1, 21001)
    write_config(tmp_path, 2, 21002)
    ports = [address.port for address in addresses_of(DEFAULT_BOOTSTRAP, tmp_path)]
    assert ports == [9092, 21001, 21002, 9093, 9094]


def test_a_broken_file_is_left_to_the_broker(tmp_path: Path) -> None:
    write_config(tmp_path, 1, 21001)
    (tmp_path / "broker-1" / "broker.toml").write_text("no toml")
    assert [address.port for address in addresses_of(DEFAULT_BOOTSTRAP, tmp_path)] == [9092, 9093, 9094]


def test_with_bootstrap_only_that(tmp_path: Path) -> None:
    write_config(tmp_path, 1, 21001)
    assert addresses_of("one:1,two:2", tmp_path) == [("one", 1), ("two", 2)]
    with pytest.raises(CommandFailed, match="--bootstrap"):
        addresses_of("nonsense", tmp_path)


def test_dead_brokers_are_not_asked(listening: Address, closed: Address) -> None:
    assert reachable(f"{closed},{listening}") == [listening]
    assert list(refused([closed, listening])) == [closed]


def test_no_broker_at_all(closed: Address) -> None:
    with pytest.raises(CommandFailed, match=rf"No broker answers at {closed} \(connection refused\)"):
        reachable(str(closed))
