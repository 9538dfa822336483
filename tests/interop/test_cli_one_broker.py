"""``tidelog broker stop`` and ``start`` on a cluster of ``tidelog up``."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.cli.reach import Address, refused
from tidelog.client.cluster_view import view_cluster

from .test_cli_up import StartUp, Up, start_up, tidelog, wait_until
from .test_cli_up_cluster import members, pid

__all__ = ["start_up"]  # the fixture

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


def broker(up: Up, *words: str, fails: bool = False) -> str:
    command = [sys.executable, "-m", "tidelog", "broker", *words, "--dir", str(up.directory)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert ended.returncode == int(fails), ended.stderr
    return ended.stderr if fails else ended.stdout


def test_one_broker_stops_and_starts(start_up: StartUp) -> None:
    up = start_up(brokers=None)
    up.first_line()
    tidelog(up.port, "topic", "create", "greetings", "--partitions", "1", "--replicas", "3")
    before = pid(up, 2)
    assert "Stopped broker 2" in broker(up, "stop", "2")
    wait_until(lambda: members(up) == [1, 3])
    assert "Broker 2 of" in broker(up, "stop", "2", fails=True)
    tidelog(up.port, "produce", "greetings", given="hello\n")
    assert "of all brokers" in tidelog(up.port, "config", "set", "log.retention.ms=7h")
    assert "Broker 2 is back" in broker(up, "start", "2")
    assert sorted(view_cluster("127.0.0.1", up.port + 1).brokers) == [1, 2, 3]
    assert pid(up, 2) != before
    mine = tidelog(up.port, "config", "show", "--broker", "2")
    assert str(7 * 3_600_000) in mine  # also the broker that was down when it was set
    assert "runs already" in broker(up, "start", "2", fails=True)
    assert up.end()[0] == 0  # It also stops the broker that was started in the other's place.


def test_it_asks_before_writes_and_reads_stop(start_up: StartUp) -> None:
    up = start_up(brokers=None)
    up.first_line()
    tidelog(up.port, "topic", "create", "alone", "--partitions", "1", "--replicas", "1")
    leader = view_cluster("127.0.0.1", up.port, "alone").topics["alone"][0].leader
    said = broker(up, "stop", str(leader), fails=True)
    assert "writes stop in alone-0, and reads stop in alone-0" in " ".join(said.split())
    assert "pass --yes" in said
    assert members(up) == [1, 2, 3]
    assert f"Stopped broker {leader}" in broker(up, "stop", str(leader), "--yes")


def test_a_broker_that_is_not_there(start_up: StartUp) -> None:
    up = start_up(brokers=1)
    up.first_line()
    assert "has no broker 7; it has 1" in broker(up, "stop", "7", fails=True)


def test_without_a_majority_of_the_controllers_it_says_which_to_start(start_up: StartUp) -> None:
    up = start_up(brokers=None)
    up.first_line()
    for number in (1, 2, 3):
        os.kill(pid(up, number), signal.SIGKILL)
    addresses = [Address("127.0.0.1", up.port + number) for number in range(3)]
    wait_until(lambda: len(refused(addresses)) == 3)
    said = broker(up, "start", "3")
    assert "Broker 3 runs, and waits for a majority of the controllers: brokers 1 and 2 are down." in said
    assert f"`tidelog broker start 1 --dir {up.directory}`" in said
    assert "Broker 3 of" in (again := broker(up, "start", "3", fails=True)) and "runs already" in again
    assert f"`tidelog broker start 3 --dir {up.directory}`" in broker(up, "stop", "3", "--yes")
    assert "waits for a majority" in broker(up, "start", "3")
    assert "Broker 2 is back" in broker(up, "start", "2")
    # Those that ran before the controllers died count as there until a session has passed without them.
    wait_until(lambda: sorted(view_cluster("127.0.0.1", up.port + 1).brokers) == [2, 3])


def test_coordinators_whose_topic_was_never_made(
    start_up: StartUp, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker would wait for the controllers to make it, and the command for the broker."""
    up = start_up(brokers=None)
    up.first_line()
    for number in (1, 2):
        os.kill(pid(up, number), signal.SIGKILL)
    left = ["--bootstrap", f"127.0.0.1:{up.port + 2}"]
    wait_until(lambda: len(refused([Address("127.0.0.1", up.port + number) for number in range(2)])) == 2)
    for words, topic in (("group", "__consumer_offsets"), ("txn", "__transaction_state")):
        assert main([words, "describe", "mine", *left]) == 1
        said = capsys.readouterr().err
        assert f"because {topic} does not exist yet and cannot be made: controllers 1 and 2" in said


def test_a_cluster_that_got_the_ports_of_another_one_is_not_changed(
    start_up: StartUp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / ".tidelog"
    up = start_up(directory=here)
    up.first_line()
    up.end()
    for name in ("TIDELOG_BOOTSTRAP", "TIDELOG_CONFIG", "TIDELOG_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["topic", "list"]) == 1
    said = capsys.readouterr().err
    assert f"No broker of the cluster in .tidelog answers at 127.0.0.1:{up.port}" in said
    assert "`tidelog up` starts it." in said
    other = start_up(directory=tmp_path / "other", port=up.port)
    other.first_line()
    there = f"127.0.0.1:{up.port}"
    assert main(["topic", "create", "theirs", "--bootstrap", there]) == 0
    for words in (["topic", "delete", "theirs", "--yes"], ["produce", "theirs"], ["cluster", "health"]):
        assert main(words) == 1
        said = capsys.readouterr().err
        assert f"{there} belongs to cluster" in said
        assert f"pass --bootstrap {there}" in said
    assert view_cluster("127.0.0.1", up.port, "theirs").topics
    assert main(["broker", "start", "1"]) == 1
    assert f"Port {up.port} of broker 1 is in use" in capsys.readouterr().err
