"""kcat, the command line client people reach for first."""

import json
import shutil
import subprocess

import pytest

from . import calls
from .records import CODECS, batches
from .wire import Wire

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (apt install kcat)"),
]


def kcat(bootstrap: str, *arguments: str, stdin: bytes = b"") -> bytes:
    command = ["kcat", "-b", bootstrap, "-q", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
def test_round_trip(bootstrap: str, topic: str, wire: Wire, codec: str) -> None:
    lines = b"".join(b"key-%d:value-%d%s\n" % (n, n, b"-again" * 50) for n in range(100))
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K:", "-z", codec, stdin=lines)
    assert kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-K:", "-o", "beginning", "-e") == lines
    stored = batches(calls.fetch(wire, topic, 0).records)
    assert {each.attributes & 7 for each in stored} == {CODECS[codec]}


def test_headers_nulls_and_timestamps(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K:", "-Z", "-H", "trace=abc", stdin=b"k:v\ntombstone:\n")
    out = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-J", "-Z")
    records = [json.loads(line) for line in out.splitlines()]
    assert [(r["offset"], r["key"], r["payload"]) for r in records] == [(0, "k", "v"), (1, "tombstone", None)]
    assert all(record["headers"] == ["trace", "abc"] for record in records)
    assert all(record["tstype"] == "create" and record["ts"] > 0 for record in records)


def test_from_an_offset_and_the_last_few(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", stdin=b"".join(b"%d\n" % n for n in range(20)))
    read = ["-C", "-t", topic, "-p", "0", "-e"]
    assert kcat(bootstrap, *read, "-o", "17") == b"17\n18\n19\n"
    assert kcat(bootstrap, *read, "-o", "-2") == b"18\n19\n"
    assert kcat(bootstrap, *read, "-o", "5", "-c", "2") == b"5\n6\n"


def test_metadata(bootstrap: str, topic: str) -> None:
    listed = json.loads(kcat(bootstrap, "-L", "-J"))
    assert bootstrap in {broker["name"] for broker in listed["brokers"]}
    (found,) = [each for each in listed["topics"] if each["topic"] == topic]
    assert [part["partition"] for part in found["partitions"]] == [0]


def test_query_offsets_by_time(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", stdin=b"a\nb\n")
    assert b"offset 0" in kcat(bootstrap, "-Q", "-t", f"{topic}:0:0")
    assert b"offset 2" in kcat(bootstrap, "-Q", "-t", f"{topic}:0:-1")
