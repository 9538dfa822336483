"""A history is whole up to the moment its writer died, and never grows in memory."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tidelog.lab.history import HistoryWriter, now_us
from tidelog.lab.load import record_of, value_of

ENDLESS = """
import itertools, sys
from tidelog.lab.history import HistoryWriter, now_us

history = HistoryWriter(sys.argv[1], run="r", mode="isr")
for sequence in itertools.count():
    history.add("acknowledged", now_us(), producer="p", sequence=sequence, partition=0, sent_us=1, bytes=100)
"""


def events(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_is_added_is_written_in_order_and_without_what_was_not_said(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    with HistoryWriter(path, run="one", mode="isr", pending_max=8) as history:
        for sequence in range(5000):
            history.add("acknowledged", sequence, producer="p", sequence=sequence, partition=2, offset=7)
        history.fault("kill -9 of broker 1")
    *writes, fault = events(path)
    assert [event["sequence"] for event in writes] == list(range(5000))
    assert writes[3] == {
        "kind": "acknowledged", "time_us": 3, "run": "one", "mode": "isr", "producer": "p", "sequence": 3,
        "partition": 2, "offset": 7,
    }  # fmt: skip
    assert fault["name"] == "kill -9 of broker 1" and abs(int(str(fault["time_us"])) - now_us()) < 60_000_000


@pytest.mark.slow
def test_a_killed_writer_leaves_whole_lines_and_the_next_one_begins_its_own(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)])
    try:
        while not path.exists() or path.stat().st_size < 1 << 20:
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    *whole, last = path.read_bytes().split(b"\n")
    assert [json.loads(line)["sequence"] for line in whole] == list(range(len(whole)))
    if not last:  # It died between two writes: what it would have left in the middle of one.
        with path.open("ab") as file:
            file.write(b'{"kind":"acknow')
    with HistoryWriter(path, run="r", mode="isr") as history:
        history.healed("all is well")
    *_, torn, healed, nothing = path.read_bytes().split(b"\n")
    assert torn.startswith(b"{") and not torn.endswith(b"}")
    assert json.loads(healed)["name"] == "all is well" and not nothing


def test_whoever_adds_waits_for_a_disk_that_is_slower(tmp_path: Path) -> None:
    """A pipe that nobody reads is the slowest of all disks."""
    path = tmp_path / "h.jsonl"
    os.mkfifo(path)
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    history = HistoryWriter(path, run="r", mode="isr", pending_max=100)
    added: list[int] = []

    def add_many() -> None:
        for number in range(20_000):
            history.add("received", number)
            added.append(number)

    adding = threading.Thread(target=add_many)
    adding.start()
    while not history._pending.full():
        assert adding.is_alive()
    assert len(added) < 20_000  # The pipe holds 64 KB, about a thousand of them.
    os.set_blocking(end, True)
    received = bytearray()
    while received.count(b"\n") < 20_000:
        received += os.read(end, 1 << 16)
    adding.join()
    history.close()
    os.close(end)
    assert [json.loads(line)["time_us"] for line in received.splitlines()] == list(range(20_000))


def test_a_full_disk_is_told_to_whoever_adds(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from tidelog.lab.history import HistoryWriter
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
history = HistoryWriter(sys.argv[1], run="r", mode="isr", pending_max=10)
try:
    while True:
        history.add("received", 1)
except OSError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "h")], capture_output=True, text=True)
    assert "cannot be written" in done.stdout and "too large" in done.stdout, done


def test_what_is_no_event_is_refused(tmp_path: Path) -> None:
    history = HistoryWriter(tmp_path / "h.jsonl", run="r", mode="isr")
    with pytest.raises(ValueError, match="Unknown event 'guessed'; use one of acknowledged"):
        history.add("guessed", 1)
    history.close()
    history.close()
    with pytest.raises(ValueError, match="is closed"):
        history.add("received", 1)


def test_a_value_says_which_record_it_is() -> None:
    assert record_of(value_of("round 3", 17)) == ("round 3", 17) and len(value_of("round 3", 17)) == 100
    assert record_of(value_of("a/b", 0)) == ("a/b", 0)
    for other in (None, b"", b"hello", b"a/b", b"a/x/"):
        assert record_of(other) is None
