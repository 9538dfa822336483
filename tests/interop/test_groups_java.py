"""Kafka's own tools, in Java, on Tidelog's groups: its consumer, its group command, its readers of the log.

Needs ``TIDELOG_TEST_JARS``; see ``test_java``.
"""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from .clients import CLIENTS, Message
from .conftest import CreateTopic
from .test_java import CONSUMER, TOOLS, java, pytestmark

__all__ = ["pytestmark"]

GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def group() -> str:
    return f"java-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(create_topic: CreateTopic, bootstrap: str) -> str:
    """Two partitions with ten records each."""
    name = create_topic(2)
    for partition in range(2):
        messages = [Message(None, f"{partition}-{number}".encode()) for number in range(10)]
        CLIENTS[0].produce(bootstrap, name, messages, partition=partition)
    return name


def consume(bootstrap: str, topic: str, group: str, count: int) -> list[str]:
    place = ["--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--from-beginning"]
    return java(CONSUMER, *place, "--max-messages", str(count), "--timeout-ms", "60000").splitlines()


def test_the_group_command(bootstrap: str, topic: str, group: str) -> None:
    at = ["--bootstrap-server", bootstrap]
    assert len(consume(bootstrap, topic, group, 20)) == 20
    assert group in java(GROUPS, *at, "--list").split()
    described = java(GROUPS, *at, "--describe", "--group", group)
    rows = [line.split()[1:6] for line in described.splitlines() if line.startswith(group)]
    assert rows == [[topic, "0", "10", "10", "0"], [topic, "1", "10", "10", "0"]]
    assert "Empty" in java(GROUPS, *at, "--describe", "--group", group, "--state")
    words = ["--group", group, "--topic", f"{topic}:1", "--to-offset", "4", "--execute"]
    java(GROUPS, *at, "--reset-offsets", *words)
    assert consume(bootstrap, topic, group, 6) == [f"1-{number}" for number in range(4, 10)]
    java(GROUPS, *at, "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    described = java(GROUPS, *at, "--describe", "--group", group)
    assert [line.split()[2] for line in described.splitlines() if line.startswith(group)] == ["1"]
    assert "successful" in java(GROUPS, *at, "--delete", "--group", group)
    assert group not in java(GROUPS, *at, "--list").split()


def objects(text: str) -> Iterator[Any]:
    """The JSON objects at the beginning of a text, which stand side by side; the log's lines come behind."""
    decoder = json.JSONDecoder()
    position = 0
    while text.startswith("{", position):
        found, position = decoder.raw_decode(text, position)
        yield found


def test_its_readers_of_the_internal_topic(bootstrap: str, topic: str, group: str) -> None:
    consume(bootstrap, topic, group, 20)
    found = {}
    for kind in ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"):
        place = ["--bootstrap-server", bootstrap, "--topic", "__consumer_offsets", "--from-beginning"]
        text = java(CONSUMER, *place, "--formatter", f"{TOOLS}.consumer.{kind}", "--timeout-ms", "5000")
        records = list(objects(text))
        found[kind] = [record for record in records if record["key"]["data"]["group"] == group]
    offsets = {
        record["key"]["data"]["partition"]: record["value"]["data"]["offset"]
        for record in found["OffsetsMessageFormatter"]
        if record["value"]
    }
    assert offsets == {0: 10, 1: 10}
    generations = [record["value"]["data"] for record in found["GroupMetadataMessageFormatter"]]
    assert [len(state["members"]) for state in generations] == [1, 0]
    assert {state["protocolType"] for state in generations} == {"consumer"}
