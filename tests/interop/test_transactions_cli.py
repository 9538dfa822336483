"""``tidelog txn``: what is open, for how long and where, and how to end it."""

import json
import subprocess
import sys
import uuid
from typing import Any

import pytest

from tidelog.testing import Broker

from . import calls
from .test_transactions_wire import Player
from .transactional import Confluent, await_stable, stable_offset, transactor
from .wire import Wire

pytestmark = pytest.mark.interop


def run(bootstrap: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tidelog", "txn", *words, "--bootstrap", bootstrap]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def said(bootstrap: str, *words: str) -> str:
    done = run(bootstrap, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def told(bootstrap: str, *words: str) -> Any:
    return json.loads(said(bootstrap, *words, "--json"))


@pytest.fixture
def name() -> str:
    return f"id-{uuid.uuid4().hex[:12]}"


def test_list_and_describe(bootstrap: str, wire: Wire, topic: str, name: str) -> None:
    with transactor(Confluent, bootstrap, name) as producer:
        (row,) = [row for row in told(bootstrap, "list") if row["transactional_id"] == name]
        assert (row["state"], row["coordinator"]) == ("Empty", 1)
        assert told(bootstrap, "describe", name)["running_ms"] is None
        producer.begin()
        producer.send(topic, b"x")
        producer.send(topic, b"y")
        assert name in said(bootstrap, "list", "--state", "ongoing")
        assert name not in said(bootstrap, "list", "--state", "Empty", "--state", "CompleteCommit")
        assert name not in said(bootstrap, "list", "--longer-than", "3600")
        found = told(bootstrap, "describe", name)
        assert (found["state"], found["epoch"], found["timeout_ms"]) == ("Ongoing", 0, 60_000)
        assert found["running_ms"] >= 0
        assert found["partitions"] == [{"topic": topic, "partition": 0, "start_offset": 0}]
        assert "Ongoing, producer" in said(bootstrap, "describe", name)
        producer.commit()
        await_stable(wire, topic)
        found = told(bootstrap, "describe", name)
        assert (found["state"], found["partitions"]) == ("CompleteCommit", [])


def test_abort_by_id_fences_the_producer(bootstrap: str, wire: Wire, topic: str, name: str) -> None:
    with transactor(Confluent, bootstrap, name) as producer:
        producer.begin()
        producer.send(topic, b"x")
        said(bootstrap, "abort", name)
        assert await_stable(wire, topic) == 2
        with pytest.raises(Confluent.fenced):
            producer.commit()


@pytest.mark.tidelog_settings({"transaction.partition.verification.enable": False})
def test_abort_of_one_that_hangs(broker: Broker) -> None:
    """A late batch, which nobody will ever end: only without verification can there be one."""
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
        player = Player(wire, "hangs")
        player.init()
        player.write("t", b"late")
        assert (stable_offset(wire, "t"), calls.end_offset(wire, "t")) == (0, 1)
        said(broker.bootstrap, "abort", "--topic", "t", "--partition", "0", "--start-offset", "0")
        assert stable_offset(wire, "t") == calls.end_offset(wire, "t") == 2


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (["describe", "nobody"], "There is no transactional id 'nobody'", 1),
        (["abort", "nobody"], "There is no transactional id 'nobody'", 1),
        (["abort"], "Pass either an ID", 2),
        (["abort", "x", "--topic", "t"], "Pass either an ID", 2),
        (["list", "--state", "Sleeping"], "--state takes Empty, Ongoing", 2),
        (
            ["abort", "--topic", "no-such-topic", "--partition", "0", "--start-offset", "0"],
            "Topic 'no-such-topic' does not exist",
            1,
        ),
    ],
)
def test_refusals_say_why(bootstrap: str, words: list[str], sentence: str, code: int) -> None:
    done = run(bootstrap, *words)
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_a_place_without_a_transaction(bootstrap: str, topic: str) -> None:
    done = run(bootstrap, "abort", "--topic", topic, "--partition", "0", "--start-offset", "5")
    assert "No open transaction begins at offset 5" in done.stderr
    done = run(bootstrap, "abort", "--topic", topic, "--partition", "9", "--start-offset", "5")
    assert "has no partition 9" in done.stderr


def test_nobody_answers() -> None:
    done = run("127.0.0.1:1", "list")
    assert done.returncode == 1
    assert "No broker answers at 127.0.0.1:1" in done.stderr
