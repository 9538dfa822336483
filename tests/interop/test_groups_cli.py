"""``tidelog group`` against a broker: what a person sees, and what a reset does to a group."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from tidelog.cli import main

from .calls import eventually
from .clients import CLIENTS, Message
from .conftest import CreateTopic

pytestmark = pytest.mark.interop

Run = Callable[..., Any]


@pytest.fixture
def tidelog(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs ``tidelog group …``; the JSON it printed, else its text, or the sentence with which it fails."""

    def run(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        ended = main(["group", *words, "--bootstrap", bootstrap])
        printed = capsys.readouterr()
        assert ended == code, printed
        if code:
            assert printed.err.count("\n") == 1
            return printed.err
        return json.loads(printed.out) if "--json" in words else printed.out

    return run


@pytest.fixture
def group() -> str:
    return f"cli-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def topic(create_topic: CreateTopic, bootstrap: str) -> str:
    """Two partitions with ten records each, a second apart."""
    name = create_topic(2, retention_ms=-1)
    for partition in range(2):
        messages = [Message(None, b"x", timestamp_ms=1_700_000_000_000 + 1000 * n) for n in range(10)]
        CLIENTS[0].produce(bootstrap, name, messages, partition=partition)
    return name


def consumer(bootstrap: str, group: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    )


@pytest.fixture
def committed(bootstrap: str, group: str, topic: str) -> None:
    """The group has read three records of each partition, and has no members."""
    places = [confluent_kafka.TopicPartition(topic, partition, 3) for partition in range(2)]
    client = consumer(bootstrap, group)
    client.commit(offsets=places, asynchronous=False)
    client.close()


def offsets(described: dict[str, Any]) -> list[int]:
    return [row["committed"] for row in described["partitions"]]


@pytest.mark.usefixtures("committed")
class TestWithoutMembers:
    def test_list(self, tidelog: Run, group: str) -> None:
        row = next(row for row in tidelog("list", "--json") if row["group"] == group)
        assert row == {"group": group, "state": "Empty", "kind": "classic"}
        assert group in tidelog("list")
        assert group in tidelog("list", "--state", "empty")
        assert group not in tidelog("list", "--state", "Stable")
        assert "--state takes" in tidelog("list", "--state", "happy", code=2)

    def test_describe(self, tidelog: Run, group: str, topic: str) -> None:
        found = tidelog("describe", group, "--json")
        assert (found["state"], found["members"], found["lag"]) == ("Empty", [], 14)
        assert found["partitions"] == [
            {
                "topic": topic,
                "partition": partition,
                "committed": 3,
                "end_offset": 10,
                "lag": 7,
                "member": None,
            }
            for partition in range(2)
        ]
        assert f"Group {group}: Empty, 0 members, lag 14" in tidelog("describe", group)

    @pytest.mark.parametrize(
        ("words", "new"),
        [
            (["--to-earliest"], [0, 0]),
            (["--to-latest"], [10, 10]),
            (["--to-offset", "5"], [5, 5]),
            (["--to-offset", "500"], [10, 10]),
            (["--shift-by", "-2"], [1, 1]),
            (["--shift-by", "-20"], [0, 0]),
            (["--shift-by", "4"], [7, 7]),
            (["--to-timestamp", "@1700000004000"], [4, 4]),
            (["--to-timestamp", "2023-11-14T22:13:24.500Z"], [5, 5]),
            (["--to-timestamp", "2090-01-01T00:00:00Z"], [10, 10]),
        ],
    )
    def test_a_reset_is_shown_first_and_then_done(
        self, tidelog: Run, group: str, words: list[str], new: list[int]
    ) -> None:
        plan = tidelog("reset-offsets", group, *words, "--json")
        assert [row["new"] for row in plan["partitions"]] == new
        assert [row["change"] for row in plan["partitions"]] == [offset - 3 for offset in new]
        assert not plan["executed"]
        assert offsets(tidelog("describe", group, "--json")) == [3, 3]
        done = tidelog("reset-offsets", group, *words, "--execute", "--json")
        assert done == {**plan, "executed": True}
        assert offsets(tidelog("describe", group, "--json")) == new

    def test_of_some_partitions(self, tidelog: Run, group: str, topic: str) -> None:
        words = ("reset-offsets", group, "--topic", f"{topic}:1", "--to-latest")
        assert "Nothing was changed" in tidelog(*words)
        assert f"Reset the offsets of group {group}." in tidelog(*words, "--execute")
        assert offsets(tidelog("describe", group, "--json")) == [3, 10]

    def test_a_group_that_never_was(self, tidelog: Run, topic: str) -> None:
        name = f"new-{uuid.uuid4().hex}"
        assert "no committed offsets" in tidelog("reset-offsets", name, "--to-latest", code=1)
        assert "no group" in tidelog("describe", name, code=1)
        assert "no committed offset" in tidelog(
            "reset-offsets", name, "--topic", topic, "--shift-by", "1", code=1
        )
        tidelog("reset-offsets", name, "--topic", topic, "--to-offset", "4", "--execute")
        assert offsets(tidelog("describe", name, "--json")) == [4, 4]

    def test_refusals(self, tidelog: Run, group: str, topic: str) -> None:
        assert "Pass exactly one of" in tidelog("reset-offsets", group, code=2)
        assert "Pass exactly one of" in tidelog(
            "reset-offsets", group, "--to-latest", "--shift-by", "1", code=2
        )
        refused = tidelog("reset-offsets", group, "--to-timestamp", "noon", code=2)
        assert "--to-timestamp takes" in refused
        refused = tidelog("reset-offsets", group, "--topic", f"{topic}:9", "--to-latest", code=1)
        assert "no partition 9" in refused
        refused = tidelog("reset-offsets", group, "--topic", f"{topic}:x", "--to-latest", code=2)
        assert "--topic takes" in refused
        refused = tidelog("reset-offsets", group, "--topic", "no-such-topic", "--to-latest", code=1)
        assert "does not exist" in refused

    def test_delete(self, tidelog: Run, group: str) -> None:
        assert tidelog("delete", group) == f"Deleted group {group}.\n"
        assert group not in tidelog("list")
        assert "There is no group" in tidelog("delete", group, code=1)


def test_with_members(tidelog: Run, bootstrap: str, group: str, topic: str) -> None:
    client = consumer(bootstrap, group)
    client.subscribe([topic])

    def assigned() -> bool:
        client.poll(0.05)
        return len(client.assignment()) == 2

    try:
        eventually(assigned, "the member has its partitions")
        found = tidelog("describe", group, "--json")
        (member,) = found["members"]
        assert (member["partitions"], member["client"]) == (2, "rdkafka")
        assert {row["member"] for row in found["partitions"]} == {member["member"]}
        assert found["state"] == "Stable"
        assert "has members" in tidelog("delete", group, code=1)
        words = ("reset-offsets", group, "--topic", topic, "--to-latest")
        assert "Nothing was changed" in tidelog(*words)
        assert "has members" in tidelog(*words, "--execute", code=1)
    finally:
        client.close()
