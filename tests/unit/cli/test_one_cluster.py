"""Addresses of two clusters in one --bootstrap: which one a command asks, or changes, must not be chance."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli import cluster_client, main
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import DEFAULT_BOOTSTRAP, Address

ONE, TWO, OTHER = (Address("127.0.0.1", port) for port in (9092, 9093, 9192))
CLUSTERS = {ONE: "first", TWO: "first", OTHER: "second"}


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Address]]:
    """The addresses that libraries get, if these answer."""

    def run(bootstrap: str, *answering: Address, clusters: dict[Address, str] = CLUSTERS) -> list[Address]:
        monkeypatch.setattr(cluster_client, "reachable", lambda _: list(answering))
        monkeypatch.setattr(ClusterClient, "_connect", lambda _, address: None)

        def tell(_: Any, address: Address) -> str | None:
            return clusters.get(address)

        monkeypatch.setattr(ClusterClient, "_cluster_id", tell)
        return ClusterClient(bootstrap).addresses

    return run


def test_brokers_of_one_cluster_are_all_used(connect: Callable[..., list[Address]]) -> None:
    assert connect("a:1,b:2", ONE, TWO) == [ONE, TWO]


def test_addresses_of_two_clusters_are_refused(connect: Callable[..., list[Address]]) -> None:
    sentence = "127.0.0.1:9192 belongs to cluster second, and 127.0.0.1:9092 to cluster first; name brokers"
    with pytest.raises(CommandFailed, match=sentence):
        connect("a:1,b:2", ONE, TWO, OTHER)


def of_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *clusters: str) -> None:
    """A directory of `tidelog up` with these ids on the disks of its brokers."""
    monkeypatch.chdir(tmp_path)
    for number, cluster in enumerate(clusters, 1):
        data = tmp_path / ".tidelog" / f"broker-{number}" / "data"
        data.mkdir(parents=True)
        (data.parent / "broker.toml").write_text(f'"node.id" = {number}\n')
        (data / "meta.properties").write_text(f"cluster.id={cluster}\n" if cluster else "version=1\n")


def test_a_cluster_that_has_the_ports_of_this_directory_is_refused(
    connect: Callable[..., list[Address]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_directory(tmp_path, monkeypatch, "first", "first")
    assert connect(DEFAULT_BOOTSTRAP, OTHER, ONE, TWO) == [ONE, TWO]
    sentence = "127.0.0.1:9192 belongs to cluster second, and not to the one in .tidelog, first, which"
    with pytest.raises(CommandFailed, match=sentence):
        connect(DEFAULT_BOOTSTRAP, OTHER)
    assert connect("127.0.0.1:9192", OTHER) == [OTHER]  # It was named.


def test_a_directory_that_does_not_say_its_cluster(
    connect: Callable[..., list[Address]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first start has come so far."""
    of_directory(tmp_path, monkeypatch, "")
    assert connect(DEFAULT_BOOTSTRAP, OTHER) == [OTHER]


def test_a_profile_is_not_about_the_directory(
    connect: Callable[..., list[Address]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_directory(tmp_path, monkeypatch, "first")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["profile", "add", "far", "--bootstrap", "127.0.0.1:9192"]) == 0
    assert main(["profile", "use", "far"]) == 0
    assert connect(DEFAULT_BOOTSTRAP, OTHER) == [OTHER]


def test_without_bootstrap_the_first_that_answers_decides(connect: Callable[..., list[Address]]) -> None:
    assert connect(DEFAULT_BOOTSTRAP, OTHER, ONE, TWO) == [OTHER]
    assert connect(DEFAULT_BOOTSTRAP, ONE, OTHER, TWO) == [ONE, TWO]


def test_a_broker_that_does_not_say_is_left_out(connect: Callable[..., list[Address]]) -> None:
    assert connect("a:1,b:2", ONE, TWO, clusters={ONE: "first"}) == [ONE]


def test_a_single_address_is_not_asked_twice(connect: Callable[..., list[Address]]) -> None:
    assert connect("a:1", OTHER, clusters={}) == [OTHER]
