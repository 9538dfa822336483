"""Addresses of two clusters in one --bootstrap: which one a command asks, or changes, must not be chance."""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.cli import cluster_client
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


def test_without_bootstrap_the_first_that_answers_decides(connect: Callable[..., list[Address]]) -> None:
    assert connect(DEFAULT_BOOTSTRAP, OTHER, ONE, TWO) == [OTHER]
    assert connect(DEFAULT_BOOTSTRAP, ONE, OTHER, TWO) == [ONE, TWO]


def test_a_broker_that_does_not_say_is_left_out(connect: Callable[..., list[Address]]) -> None:
    assert connect("a:1,b:2", ONE, TWO, clusters={ONE: "first"}) == [ONE]


def test_a_single_address_is_not_asked_twice(connect: Callable[..., list[Address]]) -> None:
    assert connect("a:1", OTHER, clusters={}) == [OTHER]
