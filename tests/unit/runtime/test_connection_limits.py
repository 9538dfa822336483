"""How many connections clients get, and that they do not lock out the other nodes."""

import pytest

from tidelog.config import BrokerConfig
from tidelog.runtime import connection_limits
from tidelog.runtime.connection_limits import (
    RESERVED,
    STRANGERS_LEAST,
    STRANGERS_MAX,
    ConnectionLimits,
    ConnectionPlace,
)


def limits(room: int = 1000, **settings: int) -> ConnectionLimits:
    return ConnectionLimits(
        BrokerConfig.parse({name.replace("_", "."): value for name, value in settings.items()}), room
    )


def place(of: ConnectionLimits, ip: str = "10.0.0.1") -> ConnectionPlace:
    found = of.admit(ip, 0.0)
    assert isinstance(found, ConnectionPlace)
    return found


def test_clients_in_all() -> None:
    few = limits(max_connections=2)
    first = place(few)
    assert [first.refusal, place(few).refusal] == ["", ""]
    assert place(few).refusal == "max.connections (2) is reached"
    few.release(first)
    assert place(few).refusal == ""


def test_clients_of_one_address() -> None:
    few = limits(max_connections_per_ip=2)
    first, _ = place(few), place(few)
    assert place(few).refusal == "max.connections.per.ip (2) is reached for 10.0.0.1"
    assert place(few, "10.0.0.2").refusal == ""
    few.release(first)
    assert place(few).refusal == ""


def test_descriptors_are_a_limit_without_any_setting() -> None:
    few = limits(room=3)
    assert [place(few).refusal for _ in range(3)] == ["", "", ""]
    assert "limit of open files leaves room for 3" in place(few).refusal


def test_beyond_the_limits_some_may_be_nodes() -> None:
    few = limits(room=1)
    place(few)
    reserved = [place(few) for _ in range(RESERVED)]
    assert all(each.refusal for each in reserved)
    assert isinstance(few.admit("10.0.0.1", 0.0), str)
    assert few.becomes_node(reserved[0]) == ""
    assert reserved[0].refusal == ""
    assert isinstance(few.admit("10.0.0.1", 0.0), ConnectionPlace)


def test_a_node_takes_no_place_of_a_client() -> None:
    few = limits(max_connections=1, max_connections_per_ip=1)
    node = place(few)
    few.becomes_node(node)
    client = place(few)
    assert client.refusal == ""
    assert place(few).refusal
    few.release(node)
    assert place(few).refusal


def test_nodes_are_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may say that it is one."""
    monkeypatch.setattr(connection_limits, "NODES_MAX", 2)
    many = limits()
    nodes = [place(many) for _ in range(3)]
    assert [many.becomes_node(each) for each in nodes[:2]] == ["", ""]
    assert "2 connections of nodes" in many.becomes_node(nodes[2])
    many.release(nodes[0])
    assert many.becomes_node(nodes[2]) == ""


def test_strangers_at_listeners_for_nodes_take_no_descriptors_of_clients() -> None:
    few = limits(room=100)
    strangers: list[ConnectionPlace | str] = []
    while len(strangers) < few.strangers_max:
        strangers.append(few.admit("10.0.0.9", 0.0, for_nodes=True))
    assert 50 < len(strangers) < 150
    clients = 0
    while not place(few).refusal:
        clients += 1
    assert clients + len(strangers) == 150  # What is left for clients, and for 50 nodes.
    assert limits(room=1).strangers_max == STRANGERS_LEAST
    assert limits(room=1 << 30).strangers_max == STRANGERS_MAX


def test_a_place_is_given_back_once() -> None:
    few = limits(max_connections=1)
    first = place(few)
    few.release(first)
    few.release(first)
    assert few.becomes_node(first) == ""  # It has ended: nothing is counted.
    assert place(few).refusal == ""
    assert place(few).refusal != ""


def test_a_listener_for_nodes_has_limits_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_limits, "NODES_MAX", 2)
    few = limits(max_connections=1, max_connections_per_ip=1)
    place(few)
    nodes = [few.admit("10.0.0.1", 0.0, for_nodes=True) for _ in range(3)]
    assert [isinstance(each, ConnectionPlace) for each in nodes] == [True, True, False]
    first = nodes[0]
    assert isinstance(first, ConnectionPlace)
    assert few.becomes_node(first) == ""
    few.release(first)
    assert isinstance(few.admit("10.0.0.1", 0.0, for_nodes=True), ConnectionPlace)
