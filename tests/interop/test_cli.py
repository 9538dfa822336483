"""The command line against a broker, as a person or script runs it: its output, its exit code."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.cli import main

from .conftest import CreateTopic

pytestmark = pytest.mark.interop

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def tidelog(bootstrap: str, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs a command to its end; fails the test when the exit code is not the expected one.

    Commands that carry records are processes, with real pipes; the others run right here, which is quicker.
    """

    def run(*words: str, given: bytes = b"", code: int = 0) -> subprocess.CompletedProcess[bytes]:
        command = [*words, "--bootstrap", bootstrap]
        if words[0] in ("produce", "consume"):
            process = [sys.executable, "-m", "tidelog", *command]
            done = subprocess.run(process, input=given, capture_output=True, check=False, timeout=60)
        else:
            capsysbinary.readouterr()
            ended = main(command)
            done = subprocess.CompletedProcess(command, ended, *capsysbinary.readouterr())
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    return run


@pytest.fixture
def name() -> str:
    return f"cli-{uuid.uuid4().hex[:12]}"


def as_json(done: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(done.stdout)


def as_json_lines(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def settings_of(description: dict[str, Any], set_by: str = "topic") -> dict[str, str]:
    return {s["name"]: s["value"] for s in description["settings"] if s["set_by"] == set_by}


def test_the_life_of_a_topic(tidelog: Run, name: str) -> None:
    created = tidelog(
        "topic", "create", name, "--partitions", "3", "--replicas", "1", "--set", "retention.ms=1000"
    )
    assert created.stdout.decode() == f"Created topic {name}.\n"
    row = next(row for row in as_json(tidelog("topic", "list", "--json")) if row["name"] == name)
    assert (row["partitions"], row["replicas"]) == (3, 1)
    assert name in tidelog("topic", "list").stdout.decode()

    description = as_json(tidelog("topic", "describe", name, "--json"))
    assert [p["partition"] for p in description["partitions"]] == [0, 1, 2]
    assert all(p["replicas"] == p["in_sync"] == [p["leader"]] for p in description["partitions"])
    assert all((p["start_offset"], p["end_offset"]) == (0, 0) for p in description["partitions"])
    assert settings_of(description)["retention.ms"] == "1000"

    tidelog(
        "topic",
        "alter",
        name,
        "--set",
        "max.message.bytes=5000",
        "--unset",
        "retention.ms",
        "--partitions",
        "4",
    )
    description = as_json(tidelog("topic", "describe", name, "--json"))
    assert len(description["partitions"]) == 4
    assert settings_of(description)["max.message.bytes"] == "5000"
    assert "retention.ms" not in settings_of(description)

    tidelog("topic", "delete", name)
    assert name not in tidelog("topic", "list").stdout.decode()


def test_a_table_shows_what_the_topic_itself_sets(tidelog: Run, name: str) -> None:
    tidelog("topic", "create", name, "--set", "retention.ms=1234567")
    table = tidelog("topic", "describe", name).stdout.decode()
    assert "1234567" in table
    assert "segment.bytes" not in table
    assert "segment.bytes" in tidelog("topic", "describe", name, "--all").stdout.decode()


@pytest.mark.not_kafka
def test_the_mode_is_a_setting(tidelog: Run, name: str) -> None:
    tidelog("topic", "create", name, "--mode", "isr")
    description = as_json(tidelog("topic", "describe", name, "--json"))
    assert description["mode"] == "isr"
    assert settings_of(description)["replication.mode"] == "isr"
    refused = tidelog("topic", "create", f"{name}-2", "--mode", "magic", code=1)
    assert b"magic" in refused.stderr


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("topic", "create", "a b"), "a b"),
        (("topic", "create", "x", "--set", "retention.ms=soon"), "retention.ms"),
        (("topic", "create", "x", "--set", "no.such.setting=1"), "no.such.setting"),
        (("topic", "create", "x", "--replicas", "99"), "99"),
        (("topic", "describe", "no-such-topic"), "'no-such-topic' does not exist"),
        (("topic", "delete", "no-such-topic"), "'no-such-topic' does not exist"),
        (("topic", "alter", "no-such-topic", "--set", "retention.ms=1"), "'no-such-topic' does not exist"),
        (("topic", "alter", "no-such-topic", "--partitions", "9"), "'no-such-topic' does not exist"),
        (("topic", "alter", "no-such-topic", "--mode", "quorum", "--yes"), "'no-such-topic' does not exist"),
        (("topic", "alter", "no-such-topic", "--copies", "1"), "'no-such-topic' does not exist"),
        (("topic", "describe", "no-such-topic"), "'no-such-topic' does not exist"),  # still
        (("consume", "no-such-topic"), "'no-such-topic' does not exist"),
    ],
)
def test_a_refusal_is_one_sentence(tidelog: Run, words: tuple[str, ...], part: str) -> None:
    done = tidelog(*words, code=1)
    assert done.stdout == b""
    assert part in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_creating_twice(tidelog: Run, name: str) -> None:
    tidelog("topic", "create", name)
    assert b"already exists" in tidelog("topic", "create", name, code=1).stderr
    tidelog("topic", "create", name, "--if-not-exists")


def test_fewer_partitions_are_refused(tidelog: Run, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=3)
    assert b"INVALID_PARTITIONS" in tidelog("topic", "alter", topic, "--partitions", "2", code=1).stderr


def test_the_settings_of_a_broker(tidelog: Run) -> None:
    def shown() -> dict[str, tuple[str, str]]:
        return {
            row["name"]: (row["value"], row["set_by"]) for row in as_json(tidelog("config", "show", "--json"))
        }

    before = shown()["log.retention.ms"]
    tidelog("config", "set", "log.retention.ms=123456789")
    assert shown()["log.retention.ms"] == ("123456789", "all brokers")
    assert "123456789" in tidelog("config", "show").stdout.decode()
    tidelog("config", "unset", "log.retention.ms")
    assert shown()["log.retention.ms"] == before
    assert b"There is no broker 77" in tidelog("config", "show", "--broker", "77", code=1).stderr
    assert b"node.id" in tidelog("config", "set", "node.id=7", code=1).stderr


def test_lines_come_back_in_order(tidelog: Run, topic: str) -> None:
    lines = b"".join(b"line %d\n" % n for n in range(5000))
    written = tidelog("produce", topic, given=lines)
    assert written.stderr.decode() == f"Wrote 5000 records to {topic}.\n"
    assert tidelog("consume", topic).stdout == lines


def test_nothing_in_nothing_out(tidelog: Run, topic: str) -> None:
    assert tidelog("produce", topic).stderr.decode() == f"Wrote 0 records to {topic}.\n"
    assert tidelog("consume", topic).stdout == b""


def test_keys_headers_and_partition(tidelog: Run, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=3)
    options = ("--key-separator", ":", "--header", "a=1", "--header", "b=x=y", "--partition", "2")
    tidelog("produce", topic, *options, given=b"alice:hello\nno key\n\n")
    shown = tidelog("consume", topic, "--keys", "--headers", "--offsets", "--separator", "|").stdout
    assert shown == b"2:0|a=1,b=x=y|alice|hello\n2:1|a=1,b=x=y|null|no key\n2:2|a=1,b=x=y|null|\n"
    assert tidelog("consume", topic, "--partition", "1").stdout == b""
    assert b"no partition 3, only 0 to 2" in tidelog("consume", topic, "--partition", "3", code=1).stderr


def test_one_key_is_one_partition_and_the_one_that_kafka_chooses(
    tidelog: Run, create_topic: CreateTopic
) -> None:
    topic = create_topic(partitions=7)
    tidelog("produce", topic, "--key", "foobar", given=b"a\nb\nc\n")
    # murmur2("foobar") = -790332482, made positive as Kafka does it
    partition = (-790332482 & 0x7FFFFFFF) % 7
    assert [(r["partition"], r["value"]) for r in as_json_lines(tidelog("consume", topic, "--json"))] == [
        (partition, value) for value in "abc"
    ]


@pytest.mark.parametrize(
    ("compression", "acks"), [("none", "0"), ("gzip", "1"), ("snappy", "all"), ("lz4", "0"), ("zstd", "1")]
)
def test_every_codec_and_acknowledgement(tidelog: Run, topic: str, compression: str, acks: str) -> None:
    tidelog("produce", topic, "--compression", compression, "--acks", acks, given=b"x\n" * 100)
    deadline = time.monotonic() + 30
    while (
        tidelog("consume", topic).stdout != b"x\n" * 100
    ):  # with acks=0 the records may still be on their way
        assert time.monotonic() < deadline


def test_json_copies_a_topic_exactly(tidelog: Run, create_topic: CreateTopic) -> None:
    # The records are old: without this they would be deleted as such.
    source, copy = (create_topic(partitions=2, **{"retention.ms": -1}) for _ in range(2))
    records: list[dict[str, Any]] = [
        {"key": "k", "value": "v", "partition": 1, "timestamp": 1700000000000},
        {"key": None, "value": None, "partition": 0, "timestamp": 1700000000001},
        {"key": "", "value": "", "partition": 0, "timestamp": 1700000000002},
        {"key_base64": "/wA=", "value_base64": "gIE=", "partition": 0, "timestamp": 1700000000003},
        {
            "key": "ключ",
            "value": 'a "quoted"\nline',
            "partition": 1,
            "timestamp": 1700000000004,
            "headers": [
                {"key": "h", "value": "1"},
                {"key": "h", "value": None},
                {"key": "h", "value_base64": "/w=="},
            ],
        },
    ]
    tidelog("produce", source, "--json", given="".join(json.dumps(r) + "\n" for r in records).encode())
    exported = tidelog("consume", source, "--json").stdout
    tidelog("produce", copy, "--json", given=exported)
    copied = as_json_lines(tidelog("consume", copy, "--json"))
    without_place = [{k: v for k, v in r.items() if k not in ("topic", "offset")} for r in copied]
    assert sorted(without_place, key=lambda r: r["timestamp"]) == sorted(
        records, key=lambda r: r["timestamp"]
    )


def test_where_reading_starts(tidelog: Run, create_topic: CreateTopic) -> None:
    topic = create_topic(**{"retention.ms": -1})
    lines = [json.dumps({"value": str(n), "timestamp": 1700000000000 + 1000 * n}) for n in range(10)]
    tidelog("produce", topic, "--json", given="\n".join(lines).encode())

    def values(start: str, *more: str) -> str:
        return tidelog("consume", topic, "--from", start, *more).stdout.decode().replace("\n", "")

    assert values("earliest") == "0123456789"
    assert values("7") == "789"
    assert values("-2") == "89"
    assert values("99") == ""
    assert values("@1700000005500") == "6789"
    assert values("2023-11-14T22:13:28Z") == "89"
    assert values("2099-01-01") == ""
    assert values("3", "--max", "2") == "34"


def test_values_that_are_no_text_go_out_as_they_are(tidelog: Run, topic: str) -> None:
    tidelog("produce", topic, given=b"\xff\x00\x1b[31m\n")
    assert tidelog("consume", topic).stdout == b"\xff\x00\x1b[31m\n"


def test_following_shows_what_is_written_later(tidelog: Run, topic: str, bootstrap: str) -> None:
    tidelog("produce", topic, given=b"before\n")
    command = [
        sys.executable,
        "-m",
        "tidelog",
        "consume",
        topic,
        "--bootstrap",
        bootstrap,
        "--follow",
        "--max",
        "2",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"before\n"  # it has read to the end now, and waits
        tidelog("produce", topic, given=b"after\nnot read\n")
        assert follower.stdout.read() == b"after\n"
        assert follower.wait(30) == 0


def test_a_reader_that_has_seen_enough_is_no_failure(tidelog: Run, topic: str, bootstrap: str) -> None:
    tidelog("produce", topic, given=b"x" * 100 + b"\n" + b"y\n" * 100_000)
    command = [sys.executable, "-m", "tidelog", "consume", topic, "--bootstrap", bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None and consumer.stderr is not None
        consumer.stdout.readline()
        consumer.stdout.close()
        assert (consumer.stderr.read(), consumer.wait(30)) == (b"", 0)


def test_a_bad_line_stops_and_is_named(tidelog: Run, topic: str) -> None:
    done = tidelog(
        "produce", topic, "--json", given=b'{"value": "a"}\n{"vlaue": "b"}\n{"value": "c"}\n', code=1
    )
    assert b"Line 2 was refused: unknown field 'vlaue'" in done.stderr
    assert b"1 record had been written" in done.stderr
    assert tidelog("consume", topic).stdout == b"a\n"


def test_a_record_that_is_too_large_is_refused(tidelog: Run, create_topic: CreateTopic) -> None:
    topic = create_topic(**{"max.message.bytes": 1000})
    done = tidelog("produce", topic, given=b"x" * 2000 + b"\n", code=1)
    assert b"MSG_SIZE_TOO_LARGE" in done.stderr
    assert tidelog("consume", topic).stdout == b""


def test_a_large_record_that_the_topic_allows_is_written(tidelog: Run, create_topic: CreateTopic) -> None:
    topic = create_topic(**{"max.message.bytes": 20_000_000})
    value = b"x" * 8_000_000 + b"\n"
    tidelog("produce", topic, given=value)
    assert tidelog("consume", topic).stdout == value
