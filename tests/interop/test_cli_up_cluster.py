"""``tidelog up`` with several brokers: ready, replicated, stopped at once; more, fewer, old directories."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidelog.client.cluster_view import view_cluster

from .test_cli_up import TIMEOUT_S, StartUp, Up, is_gone, start_up, tidelog, wait_until

__all__ = ["start_up"]  # the fixture

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]


def settings(up: Up, number: int) -> str:
    return (up.directory / f"broker-{number}" / "broker.toml").read_text()


def pid(up: Up, number: int) -> int:
    return int((up.directory / f"broker-{number}" / "broker.pid").read_text())


def members(up: Up) -> list[int]:
    return sorted(view_cluster("127.0.0.1", up.port).brokers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_three_brokers_unless_told_otherwise(start_up: StartUp, number: signal.Signals) -> None:
    up = start_up(brokers=None)
    addresses = ",".join(rf"127\.0\.0\.1:{up.port + n}" for n in range(3))
    assert re.fullmatch(rf"ready {addresses} \(3 brokers, data in .*\n", up.first_line())
    assert members(up) == [1, 2, 3]
    # Ready means that replicated writes work, at once and through any broker.
    tidelog(up.port + 1, "topic", "create", "greetings", "--partitions", "3", "--replicas", "3")
    tidelog(up.port + 2, "produce", "greetings", given="hello\n")
    assert tidelog(up.port, "consume", "greetings") == "hello\n"
    pids = [pid(up, n) for n in (1, 2, 3)]
    code, errors = up.end(number)
    assert code == 0
    assert errors.splitlines()[-1].startswith("tidelog: stopped")
    assert "SIGKILL" not in errors
    assert all(is_gone(each) for each in pids)


def test_the_same_directory_goes_on_at_other_ports(start_up: StartUp) -> None:
    """Also where each broker is now at the port that another one had."""
    up = start_up(brokers=None)
    up.first_line()
    tidelog(up.port, "topic", "create", "greetings", "--partitions", "1", "--replicas", "3")
    tidelog(up.port, "produce", "greetings", given="hello\n")
    assert up.end()[0] == 0
    again = start_up(brokers=None, port=up.port + 1)
    again.first_line()
    assert members(again) == [1, 2, 3]
    assert tidelog(again.port, "consume", "greetings") == "hello\n"
    tidelog(again.port, "produce", "greetings", given="again\n")


def test_a_killed_broker_costs_nothing_and_can_be_started_again(start_up: StartUp) -> None:
    up = start_up(brokers=None)
    up.first_line()
    tidelog(up.port, "topic", "create", "greetings", "--partitions", "1", "--replicas", "3")
    os.kill(pid(up, 1), signal.SIGKILL)
    assert "broker 1 was killed by SIGKILL" in up.error_line()
    tidelog(up.port + 1, "produce", "greetings", given="hello\n")
    config = up.directory / "broker-1" / "broker.toml"
    with (
        (up.directory / "second.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, "-m", "tidelog", "broker", "--config", str(config)], stdout=log, stderr=log
        ) as successor,
    ):
        wait_until(lambda: len(view_cluster("127.0.0.1", up.port + 1).brokers) == 3)
        assert tidelog(up.port, "consume", "greetings") == "hello\n"
        assert up.end()[0] == 0
        assert successor.wait(TIMEOUT_S) == 0


def test_a_directory_of_one_broker_grows(start_up: StartUp) -> None:
    """As directories from before there were clusters are: their one broker goes on deciding alone."""
    up = start_up(brokers=1)
    up.first_line()
    tidelog(up.port, "topic", "create", "greetings")
    tidelog(up.port, "produce", "greetings", given="hello\n")
    up.end()
    assert "controller.quorum.voters" not in settings(up, 1)
    as_before = start_up(brokers=None)
    assert "(1 broker," in as_before.first_line()
    as_before.end()
    more = start_up(brokers=3)
    assert "brokers 2 and 3 are new in this directory" in more.error_line()
    assert "(3 brokers," in more.first_line()
    assert tidelog(more.port + 2, "consume", "greetings") == "hello\n"
    assert f'"controller.quorum.voters" = "1@127.0.0.1:{more.port}"' in settings(more, 2)
    tidelog(more.port, "topic", "create", "replicated", "--replicas", "3")


def test_fewer_brokers_than_before(start_up: StartUp) -> None:
    up = start_up(brokers=3)
    up.first_line()
    tidelog(up.port, "topic", "create", "greetings", "--replicas", "3")
    tidelog(up.port, "produce", "greetings", given="hello\n")
    up.end()
    two = start_up(brokers=2)
    assert "broker 3 is down" in two.error_line()
    assert "(2 brokers," in two.first_line()
    assert tidelog(two.port, "consume", "greetings") == "hello\n"
    two.end()
    code, output, errors = start_up(brokers=1).result()
    assert (code, output) == (1, "")
    assert "needs 2 of controllers 1, 2 and 3" in errors
    assert "--brokers 2" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("setting", ["listeners=PLAINTEXT://127.0.0.1:9092", "node.id=7"])
def test_what_differs_from_broker_to_broker_cannot_be_set_for_all(start_up: StartUp, setting: str) -> None:
    code, _, errors = start_up("--set", setting, brokers=3).result()
    assert code == 1
    assert "must differ between brokers" in errors
    assert errors.count("\n") == 1


def test_five_brokers_have_five_controllers_and_stop_quickly(start_up: StartUp) -> None:
    up = start_up(brokers=5)
    assert "(5 brokers," in up.first_line()
    assert settings(up, 1).count("@127.0.0.1") == 5
    began = time.monotonic()
    assert up.end()[0] == 0
    # Nobody waited for somebody who had already gone: each of those waits would last seconds.
    assert time.monotonic() - began < 20
    assert Path(up.directory / "broker-5" / "data").exists()


def test_a_directory_of_an_earlier_version_gets_a_secret_for_all_of_its_brokers(start_up: StartUp) -> None:
    up = start_up(brokers=4)
    up.first_line()
    tidelog(up.port, "topic", "create", "greetings", "--partitions", "1", "--replicas", "3")
    assert up.end()[0] == 0
    secret = up.directory / "cluster.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    first = secret.read_text()
    secret.unlink()
    for number in (1, 2, 3, 4):  # as they were
        config = up.directory / f"broker-{number}" / "broker.toml"
        kept = [line for line in config.read_text().splitlines() if "cluster.secret" not in line]
        config.write_text("\n".join(kept) + "\n")
    again = start_up(brokers=3, port=up.port)
    again.first_line()
    assert secret.read_text() != first
    for number in (1, 2, 3, 4):
        assert '"cluster.secret.file" = "../cluster.secret"' in settings(again, number)
    # The fourth was not started. It is known when it comes.
    config = up.directory / "broker-4" / "broker.toml"
    with (up.directory / "broker-4" / "broker.log").open("ab") as log:
        fourth = subprocess.Popen(
            [sys.executable, "-m", "tidelog", "broker", "--config", str(config)], stdout=log, stderr=log
        )
    try:
        wait_until(lambda: members(again) == [1, 2, 3, 4])
    finally:
        fourth.terminate()
        fourth.wait(TIMEOUT_S)
    assert again.end()[0] == 0
