"""Which brokers are asked for their settings, and what is said of those that are down."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidelog.cli.cluster import admin as cluster_admin
from tidelog.cli.cluster.admin import Broker, Cluster
from tidelog.cli.cluster_client import ClusterClient
from tidelog.cli.config import admin, commands
from tidelog.cli.failure import CommandFailed
from tidelog.cli.reach import Address

ADDRESSES = {number: Address("h", 9090 + number) for number in (1, 2, 3)}
CLUSTER = Cluster("c", 1, {each: Broker(each, at, None, False) for each, at in ADDRESSES.items()}, [])


def answering(monkeypatch: pytest.MonkeyPatch, wanted: int | None, *down: int) -> list[int]:
    monkeypatch.setattr(cluster_admin, "look", lambda client: CLUSTER)
    silent = {ADDRESSES[each] for each in down}
    client: Any = SimpleNamespace(unanswered=lambda addresses: silent.intersection(addresses))
    return [each.broker for each in commands._answering(cast(ClusterClient, client), wanted)]


def test_brokers_that_are_down_are_named_and_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answering(monkeypatch, None, 2) == [1, 3]
    assert capsys.readouterr().err == "Note: broker 2 does not answer.\n"


def test_others_are_not_asked_for_one_broker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answering(monkeypatch, 1, 2) == [1]
    assert capsys.readouterr().err == ""


def test_the_one_that_is_wanted_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandFailed, match="Broker 2 does not answer"):
        answering(monkeypatch, 2, 2)


def test_a_value_by_its_name() -> None:
    settings: list[dict[str, Any]] = [{"name": "a", "value": "1"}, {"name": "b", "value": None}]
    assert [admin.value_of(settings, name) for name in ("a", "b", "c")] == ["1", None, None]
