"""What a broker tells Prometheus, asked over HTTP as a scraper does."""

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import calls
from interop.records import batch
from interop.wire import Wire
from tidelog.lab.local.broker import free_port
from tidelog.testing import running_broker

pytestmark = pytest.mark.not_kafka


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """(bootstrap, http address)"""
    port = free_port()
    directory: Path = tmp_path_factory.mktemp("metrics")
    with running_broker(directory, {"http.port": port}) as broker:
        yield broker.bootstrap, f"http://127.0.0.1:{port}"


def test_metrics(address: tuple[str, str]) -> None:
    bootstrap, http = address
    with Wire(bootstrap) as wire:
        calls.create_topic(wire, "counted")
        calls.produce(wire, "counted", bytes(batch(b"a", b"b", b"c")))
        text = urllib.request.urlopen(f"{http}/metrics", timeout=10).read().decode()
    assert 'tidelog_log_end_offset{partition="0",topic="counted"} 3.0' in text
    assert "tidelog_connections 1.0" in text
    for name in ("tidelog_event_loop_lag_seconds", "tidelog_requests_total", "tidelog_partitions 1.0"):
        assert name in text


def test_health(address: tuple[str, str]) -> None:
    answer = urllib.request.urlopen(f"{address[1]}/health", timeout=10)
    assert (answer.status, answer.read()) == (200, b"ok\n")


def test_anything_else_is_not_there(address: tuple[str, str]) -> None:
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(f"{address[1]}/secrets", timeout=10)
    assert refusal.value.code == 404


def test_a_scraper_that_says_nothing_or_nonsense_harms_nobody(address: tuple[str, str]) -> None:
    bootstrap, http = address
    host, port = http.removeprefix("http://").split(":")
    with (
        socket.create_connection((host, int(port))) as silent,
        socket.create_connection((host, int(port))) as rude,
    ):
        rude.sendall(b"\x00\xff nonsense\r\n\r\n")
        assert rude.recv(100).startswith(b"HTTP/1.1 404")
        assert urllib.request.urlopen(f"{http}/health", timeout=10).status == 200
        silent.close()
    with Wire(bootstrap) as wire:
        assert calls.end_offset(wire, "counted") == 3
