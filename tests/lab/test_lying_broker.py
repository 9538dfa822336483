"""The instrument finds every lie: brokers that acknowledge too early, forget, serve what is not committed,
repeat, reorder and damage. An honest broker beside them is found to be honest.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.lab.experiment.model import ConsumerSpec, LoadSpec, TopicSpec
from tidelog.lab.figures import Windows, figures_of
from tidelog.lab.history import now_us
from tidelog.lab.local.broker import Broker
from tidelog.lab.local.cluster import Cluster
from tidelog.lab.results import Figures
from tidelog.lab.workload import Workload
from tidelog.lab.workload import workload as workload_module

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CLIENT: dict[str, object] = {"socket.timeout.ms": 1000, "reconnect.backoff.max.ms": 200, "linger.ms": 10}
GIVES_UP = CLIENT | {"delivery.timeout.ms": 1500, "request.timeout.ms": 1000}
Events = Callable[[Cluster, Workload], None]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a lie has taken away never comes."""
    monkeypatch.setattr(workload_module, "MISSING_S", 0.5)
    monkeypatch.setattr(workload_module, "CATCH_UP_S", 1.0)


def lying(lie: str) -> type[Broker]:
    class LyingBroker(Broker):
        def command(self) -> list[str]:
            script = Path(__file__).with_name("lying_broker.py")
            return [sys.executable, str(script), lie, "--config", str(self.directory / "broker.toml")]

    return LyingBroker


def figures_with(
    lie: str, tmp_path: Path, brokers: int, what_happens: Events, settings: dict[str, object] = CLIENT
) -> Figures:
    topic = TopicSpec(replicas=brokers, settings={"min.insync.replicas": str(min(brokers, 2))})
    # An idempotent producer would notice some of the lies itself.
    load = LoadSpec(rate=400, idempotent=False, settings=settings)
    cluster = Cluster(tmp_path / "cluster", brokers, kind=lying(lie))
    cluster.start()
    try:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        new = NewTopic(topic.name, 1, brokers, config=topic.settings)
        admin.create_topics([new])[topic.name].result(30)
        cluster.await_in_sync(topic.name)
        workload = Workload(
            cluster.bootstrap, [topic], [load], [ConsumerSpec(settings=CLIENT)], tmp_path / "round", lie,
            {topic.name: "isr"}, plain=False,
        )  # fmt: skip
        try:
            workload.start()
            workload.wait_steady(60)
            steady = now_us()
            what_happens(cluster, workload)
            workload.finish(30)
        finally:
            workload.close()
    finally:
        cluster.kill()
    return figures_of(tmp_path / "round", topic.name, Windows(steady, steady, now_us(), now_us()))[0]


def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def await_written(workload: Workload, count: int) -> None:
    wanted = workload.acknowledged()["records"] + count
    until(lambda: workload.acknowledged()["records"] >= wanted)


def await_read(workload: Workload, count: int) -> None:
    wanted = workload.consumed()["records"] + count
    until(lambda: workload.consumed()["records"] >= wanted)


def write_some(cluster: Cluster, workload: Workload) -> None:
    await_written(workload, 300)


def restart(cluster: Cluster, workload: Workload) -> None:
    await_written(workload, 100)
    await_read(workload, 50)
    cluster[1].kill()
    cluster[1].start()
    await_written(workload, 50)


def change_leader(wait: Callable[[Workload], None]) -> Events:
    """The followers sleep while the leader takes writes; then they wake up without it."""

    def events(cluster: Cluster, workload: Workload) -> None:
        leader = cluster.leader_of("records")
        followers = cluster.followers_of("records")
        for follower in followers:
            follower.pause()
        wait(workload)
        leader.kill()
        for follower in followers:
            follower.resume()
        assert cluster.leader_of("records") is not leader
        leader.start()
        cluster.await_in_sync("records")
        await_written(workload, 50)

    return events


def test_an_honest_broker_is_found_to_be_honest(tmp_path: Path) -> None:
    found = figures_with("none", tmp_path, 1, restart)
    assert found.acknowledged > 150 and found.examples == ()
    assert (found.lost, found.vanished, found.disordered, found.misplaced) == (0, 0, 0, 0)


def test_a_broker_that_acknowledges_without_copying(tmp_path: Path) -> None:
    found = figures_with("acknowledges", tmp_path, 3, change_leader(lambda load: await_written(load, 100)))
    assert found.lost >= 50 and any("is not there" in example for example in found.examples)


def test_a_broker_that_forgets_after_a_kill(tmp_path: Path) -> None:
    found = figures_with("forgets", tmp_path, 1, restart)
    assert found.lost >= 25 and found.vanished > 0


def test_a_broker_that_serves_uncommitted_records(tmp_path: Path) -> None:
    def until_read_and_given_up(workload: Workload) -> None:
        await_read(workload, 50)
        until(lambda: workload.failed()["records"] >= 50)

    events = change_leader(until_read_and_given_up)
    found = figures_with("serves uncommitted", tmp_path, 3, events, GIVES_UP)
    assert found.lost == 0 and found.vanished > 0


def test_a_broker_that_damages(tmp_path: Path) -> None:
    found = figures_with("damages", tmp_path, 1, write_some)
    assert found.lost >= 20 and found.doubled == 0


def test_a_broker_that_repeats(tmp_path: Path) -> None:
    found = figures_with("repeats", tmp_path, 1, write_some)
    assert found.doubled > 0 and found.lost == 0


def test_a_broker_that_reorders(tmp_path: Path) -> None:
    found = figures_with("reorders", tmp_path, 1, write_some)
    assert found.disordered > 0 and found.lost == 0 and found.doubled == 0
