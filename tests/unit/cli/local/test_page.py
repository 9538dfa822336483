"""Ports on which the page of ``tidelog up`` reads more than the Kafka protocol tells."""

from pathlib import Path

import pytest

from tidelog.cli.local import page
from tidelog.cli.local.broker_settings import LocalBroker
from tidelog.cli.local.page import http_ports


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    taken: set[int] = set()
    monkeypatch.setattr(page, "is_free", lambda _, port: port not in taken)
    return taken


def brokers(directory: Path, *ports: int | None, first: int = 9092) -> list[LocalBroker]:
    """Each with the http.port that its file names; None: no line, -1: no file."""
    found = []
    for number, port in enumerate(ports, start=1):
        broker = LocalBroker(directory / f"broker-{number}", number, first + number - 1)
        if port != -1:
            broker.directory.mkdir()
            line = "" if port is None else f'"http.port" = {port}\n'
            broker.config_path.write_text(f'"node.id" = {number}\n{line}')
        found.append(broker)
    return found


@pytest.mark.parametrize(("first", "port"), [(9092, "19092"), (60000, "50000")])
def test_beside_those_of_the_brokers(tmp_path: Path, taken: set[int], first: int, port: str) -> None:
    assert http_ports(brokers(tmp_path, -1, None, first=first), {}) == {"http.port": port}


def test_none_where_they_are_in_use(tmp_path: Path, taken: set[int]) -> None:
    taken.add(19093)
    assert http_ports(brokers(tmp_path, -1, -1), {}) == {}


def test_what_somebody_chose_stays(tmp_path: Path, taken: set[int]) -> None:
    there = brokers(tmp_path, 9644, 9645)
    taken.update({9644, 9645})
    assert http_ports(there, {}) == {}
    assert http_ports(there[:1], {"http.port": "1"}) == {}


def test_off_stays_off(tmp_path: Path, taken: set[int]) -> None:
    assert http_ports(brokers(tmp_path, 0, None), {}) == {}


def test_a_new_broker_gets_the_next_port(tmp_path: Path, taken: set[int]) -> None:
    assert http_ports(brokers(tmp_path, 9644, 9645, -1), {}) == {"http.port": "9644"}
