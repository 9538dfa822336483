"""``tidelog plan`` about a running cluster: what it says beforehand is what a kill then does."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tidelog.cli.app import run
from tidelog.cli.client import connect_admin
from tidelog.cli.plan import calibrating
from tidelog.cli.topic.admin import list_topics
from tidelog.planner.costs import predict
from tidelog.planner.promises import Terms
from tidelog.testing import Cluster, running_cluster

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka, pytest.mark.slow]

TOPICS = {
    "orders": ("--replicas", "3", "--mode", "isr", "--set", "min.insync.replicas=2"),
    "double": ("--replicas", "3", "--mode", "primary-backup", "--copies", "3"),
    "votes": ("--replicas", "3", "--mode", "quorum"),
}
Command = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("plan"), 3) as cluster:
        for name, words in TOPICS.items():
            create = ["topic", "create", name, "--partitions", "1", *words, "--bootstrap", cluster.bootstrap]
            assert run(create) == 0
        yield cluster


@pytest.fixture
def tidelog(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*words: str, code: int = 0) -> str:
        ended = run([*words, "--bootstrap", cluster.bootstrap])
        said = capsys.readouterr()
        assert ended == code, said
        return said.out + said.err

    return command


def takes_writes(cluster: Cluster, topic: str) -> bool:
    """Whether an acks=all write is acknowledged within some seconds."""
    heard: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        heard.append(error)

    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap,
        "acks": "all",
        "delivery.timeout.ms": 5000,
        "request.timeout.ms": 2000,
        "reconnect.backoff.max.ms": 200,
    }
    producer = Producer(settings)
    producer.produce(topic, b"x", on_delivery=delivered)
    producer.flush(8)
    # Not `== [None]`: a KafkaError that is compared with None raises.
    return len(heard) == 1 and heard[0] is None


def test_a_topic_that_exists(tidelog: Command) -> None:
    text = tidelog("plan", "topic", "orders")
    assert text.startswith("Topic orders: isr with 3 replicas, min.insync.replicas=2")
    assert "Any 2 of the brokers 1, 2 and 3 are cut off or down." in text
    assert "All partitions have enough replicas for writes." in text
    assert "does not exist" in tidelog("plan", "topic", "nowhere", code=1)


def test_unknown_brokers(tidelog: Command) -> None:
    assert "does not have broker 9" in tidelog("plan", "what-if", "--dead", "9", code=1)


def test_drain_warns(tidelog: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = json.loads(tidelog("topic", "describe", "double", "--json"))["partitions"][0]["leader"]
    backup = next(each for each in (1, 2, 3) if each != leader)
    assert "writes stop in double-0" in tidelog("broker", "drain", str(backup))
    tidelog("broker", "drain", str(backup), "--undo")
    monkeypatch.setattr("tidelog.cli.cluster.drain.PATIENCE_S", 0.5)
    text = tidelog("broker", "drain", str(leader), code=1)
    assert "writes stop in double-0" in text
    assert f"Broker {leader} still leads double-0" in text
    tidelog("broker", "drain", str(leader), "--undo")


def test_apply_creates_and_changes_a_topic(tidelog: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ("plan", "--brokers", "3", "--survive-writes", "1", "--survive-data", "1")
    assert "Created topic made." in tidelog(*needs, "--apply", "made", "--yes")
    assert "mode isr" in tidelog("topic", "describe", "made")
    # To agree once is enough, also where settings have no meaning in the new mode.
    monkeypatch.setattr("typer.confirm", lambda text: True)
    changed = tidelog(*needs, "--power", "--apply", "made")
    assert "unset min.insync.replicas" in changed
    assert "Changed topic made." in changed
    assert "mode quorum" in tidelog("topic", "describe", "made")
    # What settings do not change is refused, and so is a plan for more brokers than there are.
    assert "has 1 partition" in tidelog(*needs, "--apply", "made", "--queues", "6", "--yes", code=1)
    larger = ("plan", "--brokers", "5", "--survive-writes", "2", "--survive-data", "2")
    assert "this cluster has 3 brokers" in tidelog(*larger, "--apply", "large", "--yes", code=1)
    # A setting of the topic that weakens the plan does not stay.
    tidelog("topic", "alter", "made", "--set", "flush.messages=1000")
    assert "unset flush.messages" in tidelog(*needs, "--power", "--apply", "made", "--mode", "quorum")


def test_a_round_of_calibration(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short, on a cluster that is there: the figures are too rough to be used, and make sense."""
    monkeypatch.setattr(calibrating, "LONE_S", 0.2)
    monkeypatch.setattr(calibrating, "FLOOD_S", 0.3)
    found = calibrating.measure_round(cluster, 1)
    assert 0 < found.round_trip_ms[50] < 1000
    assert found.client_cpu_s_per_mb > 0
    assert found.leader_cpu_s_per_mb > 0
    assert found.busy_cores > 0
    predicted = predict(Terms("isr", 3), [found], 3, 2)
    assert predicted.p50_ms.middle >= found.round_trip_ms[50]
    assert predicted.mb_per_s.middle > 0
    names = {row["name"] for row in list_topics(connect_admin(cluster.bootstrap), internal=False)}
    assert not names & {f"{kind}-1" for kind in calibrating.TOPICS}


def test_what_is_said_is_what_a_kill_does(cluster: Cluster, tidelog: Command) -> None:
    """The last test: a broker stays dead."""
    [double] = json.loads(tidelog("topic", "describe", "double", "--json"))["partitions"]
    victim = next(each for each in (1, 2, 3) if each != double["leader"])
    said = json.loads(tidelog("plan", "what-if", "--dead", str(victim), "--json"))
    expected = {each["topic"]: each["writes"] == "go on" for each in said["partitions"]}
    assert {name: expected[name] for name in TOPICS} == {"orders": True, "double": False, "votes": True}
    cluster[victim].kill()
    assert {name: takes_writes(cluster, name) for name in TOPICS} == {name: expected[name] for name in TOPICS}
    text = tidelog("plan", "topic", "double")
    assert f"Down: broker {victim}." in text
    assert "Partition 0: writes have stopped." in text
