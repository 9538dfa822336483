"""Kafka's own producer in Java, which raises its epoch with every transaction, and Kafka's tools.

Needs ``TIDELOG_TEST_JARS``, as :mod:`interop.test_java`.
"""

import re
import subprocess
import uuid
from pathlib import Path

import pytest

from tidelog.testing import Broker

from . import calls
from .test_java import DUMP, JARS, TOOLS, java
from .transactional import Confluent, await_stable, committed_offset, stable_offset
from .wire import Wire

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(JARS is None, reason="TIDELOG_TEST_JARS names no directory with Kafka's jars"),
]

SOURCE = Path(__file__).parent / "java" / "Transactions.java"
COMMAND = f"{TOOLS}.TransactionsCommand"


def run(*arguments: str) -> list[str]:
    """What the program in Java prints; it is compiled on the way."""
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
    done = subprocess.run(
        ["java", *options, str(SOURCE), *arguments], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def name() -> str:
    return f"id-{uuid.uuid4().hex[:12]}"


def test_what_java_writes_everyone_reads(bootstrap: str, wire: Wire, topic: str, name: str) -> None:
    run("write", bootstrap, topic, name, "7")
    end_offset = await_stable(wire, topic)
    assert end_offset == 77
    committed = [f"{number} {record}" for number in (0, 1, 3, 4, 6) for record in range(10)]
    found = Confluent.read(bootstrap, topic, "read_committed", end_offset)
    assert [value.decode() for value in found] == committed
    assert run("read", bootstrap, topic, name, "read_committed", str(end_offset)) == committed
    everything = [f"{number} {record}" for number in range(7) for record in range(10)]
    assert run("read", bootstrap, topic, name, "read_uncommitted", str(end_offset)) == everything
    assert committed_offset(wire, name, topic) == 7


def test_java_uses_an_epoch_per_transaction(bootstrap: str, wire: Wire, topic: str, name: str) -> None:
    run("write", bootstrap, topic, name, "4")
    await_stable(wire, topic)
    topics = [{"name": topic, "partition_indexes": [0]}]
    (found,) = wire.call("describe_producers", 0, topics=topics).topics[0].partitions[0].active_producers
    assert found.producer_epoch == 4


def test_a_producer_that_was_replaced(bootstrap: str, wire: Wire, topic: str, name: str) -> None:
    assert run("fence", bootstrap, topic, name) == ["fenced"]
    end_offset = await_stable(wire, topic)
    assert Confluent.read(bootstrap, topic, "read_committed", end_offset) == [b"new"]


def test_kafkas_tool_lists_describes_and_aborts(bootstrap: str, wire: Wire, topic: str, name: str) -> None:
    at = ["--bootstrap-server", bootstrap]
    producer = Confluent(bootstrap, name)
    producer.begin()
    producer.send(topic, b"x")
    listed = java(COMMAND, *at, "list")
    assert re.search(rf"^{name}\s.*\sOngoing\s*$", listed, re.MULTILINE), listed
    described = java(COMMAND, *at, "describe", "--transactional-id", name)
    assert f"{topic}-0" in described
    assert "Ongoing" in described
    place = ["--topic", topic, "--partition", "0"]
    producers = java(COMMAND, *at, "describe-producers", *place)
    line = producers.splitlines()[1].split()
    assert line[-1] == "0", "where the open transaction begins"
    assert stable_offset(wire, topic) == 0
    java(COMMAND, *at, "abort", *place, "--start-offset", "0")
    assert await_stable(wire, topic) == 2


@pytest.mark.not_kafka
def test_kafkas_dumper_reads_the_files(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
    producer = Confluent(broker.bootstrap, "dumped")
    for number in range(4):
        producer.begin()
        producer.send("t", b"x")
        (producer.abort if number % 2 else producer.commit)()
    with Wire(broker.bootstrap) as wire:
        await_stable(wire, "t")
    assert broker.stop() == 0
    (index,) = (broker.data_directory / "t-0").glob("*.txnindex")
    told = java(DUMP, "--files", str(index))
    assert "producerId: " in told
    assert re.findall(r"firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", told) == [
        ("2", "3", "4"),
        ("6", "7", "8"),
    ]
    (log,) = (broker.data_directory / "t-0").glob("*.log")
    told = java(DUMP, "--print-data-log", "--files", str(log))
    assert told.count("endTxnMarker: COMMIT coordinatorEpoch: 0") == 2
    assert told.count("endTxnMarker: ABORT coordinatorEpoch: 0") == 2
    logs = broker.data_directory.glob("__transaction_state-*/*.log")
    written = [str(path) for path in logs if path.stat().st_size]
    told = java(DUMP, "--transaction-log-decoder", "--files", ",".join(written))
    assert '"transactionalId":"dumped"' in told
    states = re.findall(r'"transactionStatus":(\d)', told)
    assert states[0] == "0"
    assert [state for state in states if state in "123"] == ["1", "2", "1", "3"] * 2
