"""Kafka's own tools, in Java, against Tidelog: console clients, admin commands, and its reader of log files.

Needs ``TIDELOG_TEST_JARS``, a directory with the jars of ``org.apache.kafka:kafka_2.13`` and ``kafka-tools``.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tidelog.testing import Broker

from . import calls
from .records import CODECS, batch, values
from .wire import Wire

JARS = os.environ.get("TIDELOG_TEST_JARS")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(JARS is None, reason="TIDELOG_TEST_JARS names no directory with Kafka's jars"),
]

TOOLS = "org.apache.kafka.tools"
PRODUCER, CONSUMER = f"{TOOLS}.ConsoleProducer", f"{TOOLS}.consumer.ConsoleConsumer"
TOPICS, OFFSETS = f"{TOOLS}.TopicCommand", f"{TOOLS}.GetOffsetShell"
LOG_DIRS, DUMP = f"{TOOLS}.LogDirsCommand", f"{TOOLS}.DumpLogSegments"
CONFIGS = "kafka.admin.ConfigCommand"


def java(main: str, *arguments: str, stdin: str = "") -> str:
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*"]
    done = subprocess.run(
        ["java", *options, main, *arguments], input=stdin, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_console_producer_and_consumer(bootstrap: str, topic: str) -> None:
    lines = [f"line {n}" for n in range(50)]
    java(PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic, stdin="\n".join(lines) + "\n")
    place = ["--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"]
    out = java(CONSUMER, *place, "--max-messages", "50", "--timeout-ms", "60000")
    assert out.splitlines() == lines


@pytest.mark.parametrize("codec", sorted(CODECS.keys() - {"none"}))
def test_the_java_producers_codecs(bootstrap: str, topic: str, wire: Wire, codec: str) -> None:
    place = ["--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", codec]
    java(PRODUCER, *place, stdin="compressed " * 50 + "\n")
    assert values(calls.fetch(wire, topic, 0).records) == [b"compressed " * 50]


def test_admin_commands(bootstrap: str, wire: Wire) -> None:
    at = ["--bootstrap-server", bootstrap]
    name = "made-by-java"
    java(TOPICS, *at, "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=1000000")
    calls.await_topic(wire, name, 3)
    described = java(TOPICS, *at, "--describe", "--topic", name)
    assert "PartitionCount: 3" in described
    assert "retention.ms=1000000" in described
    java(TOPICS, *at, "--alter", "--topic", name, "--partitions", "4")
    calls.await_topic(wire, name, 4)
    entity = ["--entity-type", "topics", "--entity-name", name]
    java(CONFIGS, *at, "--alter", *entity, "--add-config", "segment.ms=77000")
    assert "segment.ms=77000" in java(CONFIGS, *at, "--describe", *entity)
    calls.produce(wire, name, bytes(batch(b"a", b"b")), partition=2)
    assert f"{name}:2:2" in java(OFFSETS, *at, "--topic", name).splitlines()
    assert f'"partition":"{name}-3"' in java(LOG_DIRS, *at, "--describe")
    java(TOPICS, *at, "--delete", "--topic", name)
    calls.await_deletion(wire, name)


@pytest.mark.not_kafka
def test_kafkas_log_dumper_reads_the_files(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t", configs={"segment_bytes": 1 << 20})
        for number in range(60):
            codec = list(CODECS)[number % len(CODECS)]
            data = batch(os.urandom(30_000), b"second of %d" % number, codec=codec)
            calls.produce(wire, "t", bytes(data))
    assert broker.stop() == 0
    directory = broker.data_directory / "t-0"
    segments = sorted(directory.glob("*.log"))
    assert len(segments) > 1
    out = java(DUMP, "--print-data-log", "--deep-iteration", "--files", ",".join(map(str, segments)))
    assert out.count("isvalid: true") == 60
    assert all(f"second of {number}" in out for number in range(60))
    indexes = [str(path) for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]]
    checked = java(DUMP, "--index-sanity-check", "--files", ",".join(sorted(indexes)))
    assert checked.count("passed sanity check") == len(indexes)
    assert_index_fits(directory)


@pytest.mark.not_kafka
def test_kafkas_dumper_reads_what_is_remembered_of_producers(broker: Broker) -> None:
    with Wire(broker.bootstrap) as wire:
        calls.create_topic(wire, "t")
        for sequence in range(0, 14, 2):
            calls.produce(wire, "t", bytes(batch(b"a", b"b", producer=(4711, 3, sequence))))
    broker.stop()
    (path,) = (broker.data_directory / "t-0").glob("*.snapshot")
    assert path.name == "00000000000000000014.snapshot"
    told = java(DUMP, "--files", str(path))
    for fact in ("producerId: 4711", "producerEpoch: 3", "firstSequence: 12", "lastSequence: 13",
                 "lastOffset: 13", "offsetDelta: 1"):  # fmt: skip
        assert f"{fact} " in told


def assert_index_fits(directory: Path) -> None:
    """The dumper compares each index entry with the log beside it and reports what does not fit."""
    indexes = [str(path) for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]]
    out = java(DUMP, "--verify-index-only", "--files", ",".join(sorted(indexes)))
    assert "mismatch" not in out.lower()
    assert "out of order" not in out.lower()
