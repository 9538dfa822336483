"""What a broker tells Prometheus, asked over HTTP as a scraper does."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Consumer, Producer

from interop import calls
from interop.records import batch
from interop.wire import Wire
from tidelog.lab.local.broker import Broker, free_port
from tidelog.testing import Cluster, running_broker

pytestmark = pytest.mark.not_kafka

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, str]]:
    """(the broker, its http address)"""
    port = free_port()
    directory: Path = tmp_path_factory.mktemp("metrics")
    with running_broker(directory, {"http.port": port}) as broker:
        yield broker, f"http://127.0.0.1:{port}"


@pytest.fixture
def address(running: tuple[Broker, str]) -> tuple[str, str]:
    """(bootstrap, http address)"""
    return running[0].bootstrap, running[1]


def test_metrics(address: tuple[str, str]) -> None:
    bootstrap, http = address
    with Wire(bootstrap) as wire:
        calls.create_topic(wire, "counted")
        calls.produce(wire, "counted", bytes(batch(b"a", b"b", b"c")))
        text = urllib.request.urlopen(f"{http}/metrics", timeout=10).read().decode()
    assert 'tidelog_log_end_offset{partition="0",topic="counted"} 3.0' in text
    assert "tidelog_connections 1.0" in text
    for name in (
        "tidelog_event_loop_lag_seconds", "tidelog_requests_total", "tidelog_partitions 1.0",
        "tidelog_leader_partitions 1.0", "tidelog_leaderless_partitions 0.0", "tidelog_failed_logs 0.0",
        "tidelog_under_replicated_partitions 0.0", "tidelog_below_minimum_partitions 0.0",
        "tidelog_broker_session 1.0", "tidelog_controller_active 1.0", "tidelog_disk_free_bytes",
        "tidelog_memory_bytes", 'tidelog_request_seconds_count{request="Produce"} 1.0',
        'tidelog_bytes_in_total{partition="0",topic="counted"}', "tidelog_leader_elections_total 1.0",
        'tidelog_records_in_total{partition="0",topic="counted"} 3.0', "tidelog_disk_reads_total",
    ):  # fmt: skip
        assert name in text


def scrape(http: str) -> dict[str, float]:
    """Every metric by its name with labels."""
    text = urllib.request.urlopen(f"{http}/metrics", timeout=10).read().decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_what_consumers_read_and_have_committed(address: tuple[str, str]) -> None:
    """A group id may have any characters."""
    bootstrap, http = address
    group = 'the "best"\\of\nall'
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(10):
        producer.produce("read", str(number).encode() * 100)
    assert producer.flush(20) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.subscribe(["read"])
    message = consumer.poll(30)
    assert message is not None and message.error() is None
    consumer.commit(message=message, asynchronous=False)
    after = scrape(http)
    consumer.close()
    labels = '{group="the \\"best\\"\\\\of\\nall",partition="0",topic="read"}'
    assert after[f"tidelog_group_committed_offset{labels}"] == 1
    assert after[f"tidelog_group_lag_records{labels}"] == 9
    sent = after['tidelog_bytes_out_total{partition="0",topic="read"}']
    assert sent >= after['tidelog_bytes_in_total{partition="0",topic="read"}'] > 1000
    assert after["tidelog_page_cache_read_bytes_total"] >= sent
    times = 'tidelog_request_seconds_{}{{request="FetchConsumer"}}'
    assert after[times.format("count")] >= 1
    assert after[times.format("sum")] > 0


def test_an_election_is_counted_with_its_time(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 3)
    ports = {}
    for number, broker in enumerate(cluster, start=1):
        ports[number] = broker.settings["http.port"] = free_port()
    cluster.start()
    try:
        cluster.create_topic("elected", partitions=1, replicas=3)
        leader = cluster.leader_of("elected")
        others = [f"http://127.0.0.1:{ports[each.node_id]}" for each in cluster if each is not leader]
        before = [scrape(http) for http in others]
        leader.kill()
        calls.eventually(lambda: cluster.leader_of("elected") is not leader, "another broker leads")
        grown = [
            {name: now.get(name, 0.0) - then.get(name, 0.0) for name in ELECTIONS}
            for then, now in zip(before, map(scrape, others), strict=True)
        ]
        assert sum(each["tidelog_leader_elections_total"] for each in grown) == 1
        assert sum(each["tidelog_leader_election_seconds_count"] for each in grown) == 1
        assert 0 < sum(each["tidelog_leader_election_seconds_sum"] for each in grown) < 10
        assert sum(each["tidelog_unclean_leader_elections_total"] for each in grown) == 0
        followed = 'tidelog_request_seconds_count{request="FetchFollower"}'
        assert max(scrape(http)[followed] for http in others) > 0
    finally:
        cluster.stop()


ELECTIONS = (
    "tidelog_leader_elections_total",
    "tidelog_leader_election_seconds_count",
    "tidelog_leader_election_seconds_sum",
    "tidelog_unclean_leader_elections_total",
)


@pytest.mark.parametrize("name", ["prometheus-alerts.yml", "grafana-dashboard.json"])
def test_rules_and_dashboards_name_metrics_that_exist(address: tuple[str, str], name: str) -> None:
    with Wire(address[0]) as wire:
        calls.create_topic(wire, f"of-{name.partition('.')[0]}")
    text = urllib.request.urlopen(f"{address[1]}/metrics", timeout=10).read().decode()
    served = set(re.findall(r"^(?:# TYPE )?(tidelog_\w+)", text, re.MULTILINE))
    asked = set(re.findall(r"\btidelog_\w+", "\n".join(_expressions(DEPLOY / name))))
    assert len(asked) > 8
    assert asked <= served, f"/metrics does not have {sorted(asked - served)}"


def _expressions(path: Path) -> list[str]:
    found = yaml.safe_load(path.read_text())  # JSON is YAML, too.
    if "groups" in found:
        return [rule["expr"] for group in found["groups"] for rule in group["rules"]]
    return [target["expr"] for panel in found["panels"] for target in panel["targets"]]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_accepts_the_rules() -> None:
    check = ["promtool", "check", "rules", str(DEPLOY / "prometheus-alerts.yml")]
    assert subprocess.run(check, check=False).returncode == 0


def test_figures_of_the_process_reset_nothing(address: tuple[str, str]) -> None:
    found = json.loads(urllib.request.urlopen(f"{address[1]}/process", timeout=10).read())
    assert found.keys() == {"cpu_seconds", "memory_bytes", "requests", "connections", "loop_lag_seconds"}
    assert 10_000_000 < found["memory_bytes"] < 1_000_000_000


def test_the_past_is_told_from_any_offset_on(address: tuple[str, str]) -> None:
    bootstrap, http = address
    with Wire(bootstrap) as wire:
        calls.create_topic(wire, "past")
    found = json.loads(urllib.request.urlopen(f"{http}/past", timeout=10).read())
    kinds = [record["type"] for *_, records in found["decisions"] for record in records]
    assert kinds[0] == "broker-registered"
    offset, at_ms, _, (created,) = next(
        decision for decision in found["decisions"] if decision[3][0].get("name") == "past"
    )
    assert abs(at_ms - time.time() * 1000) < 600_000
    assert created["assignments"] == [[1]]
    assert found["whole"]
    later = json.loads(urllib.request.urlopen(f"{http}/past?from={offset}", timeout=10).read())
    assert later["decisions"][0][0] == offset
    for begin in (found["next"] + 1000, 10**18):
        nothing = json.loads(urllib.request.urlopen(f"{http}/past?from={begin}", timeout=10).read())
        assert nothing["decisions"] == []


@pytest.mark.parametrize("path", ["health", "ready", "live"])
def test_probes(address: tuple[str, str], path: str) -> None:
    answer = urllib.request.urlopen(f"{address[1]}/{path}", timeout=10)
    assert (answer.status, answer.read()) == (200, b"ok\n")


def test_a_hangup_does_not_end_it(running: tuple[Broker, str]) -> None:
    broker, http = running
    os.kill(broker.pid, signal.SIGHUP)
    calls.eventually(lambda: "SIGHUP is ignored" in broker.log_text(), "it says so")
    assert urllib.request.urlopen(f"{http}/live", timeout=10).status == 200


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
