"""``tidelog up``: ready, stopped, started again; and what it says when it cannot."""

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.lab.local.broker import free_port, is_ready

pytestmark = [pytest.mark.interop, pytest.mark.not_kafka]

TIMEOUT_S = 60


class Up:
    """A running ``tidelog up``."""

    def __init__(self, directory: Path, *words: str, port: int) -> None:
        self.directory = directory
        self.port = port
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidelog", "up", "--dir", str(directory), "--port", str(port), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def broker_pid(self) -> int:
        return int((self.directory / "broker-1" / "broker.pid").read_text())

    def first_line(self) -> str:
        """What it prints first, or "" if it ends without a word."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], TIMEOUT_S)[0], "neither ready nor ended"
        return self.process.stdout.readline()

    def error_line(self) -> str:
        assert self.process.stderr is not None
        assert select.select([self.process.stderr], [], [], TIMEOUT_S)[0], "nothing was said"
        return self.process.stderr.readline()

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and all that was said on stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, errors

    def result(self) -> tuple[int, str, str]:
        output, errors = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, output, errors


StartUp = Callable[..., Up]


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[StartUp]:
    started: list[Up] = []

    def start(
        *words: str, directory: Path = tmp_path / "cluster", port: int | None = None, brokers: int | None = 1
    ) -> Up:
        count = ("--brokers", str(brokers)) if brokers else ()
        started.append(Up(directory, *count, *words, port=port if port is not None else free_port()))
        return started[-1]

    yield start
    for up in started:
        if up.process.poll() is None:
            up.end()


def tidelog(port: int, *words: str, given: str = "") -> str:
    command = [sys.executable, "-m", "tidelog", *words, "--bootstrap", f"127.0.0.1:{port}"]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=60).stdout


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_ready_means_writable_and_a_signal_stops_it_cleanly(
    start_up: StartUp, number: signal.Signals
) -> None:
    up = start_up()
    ready = up.first_line()
    assert re.fullmatch(rf"ready 127\.0\.0\.1:{up.port} \(1 broker, data in .*\n", ready)
    tidelog(up.port, "topic", "create", "greetings")
    tidelog(up.port, "produce", "greetings", given="hello\n")
    assert tidelog(up.port, "consume", "greetings") == "hello\n"
    files = {path.name for path in (up.directory / "broker-1").iterdir()}
    assert {"broker.toml", "broker.log", "broker.pid", "data"} <= files
    pid = up.broker_pid
    code, errors = up.end(number)
    assert code == 0
    assert errors.splitlines()[-1].startswith("tidelog: stopped")
    assert is_gone(pid)
    assert not (up.directory / "broker-1" / "broker.pid").exists()


def test_the_same_directory_goes_on_where_it_stopped(start_up: StartUp) -> None:
    up = start_up("--set", "num.partitions=3")
    up.first_line()
    tidelog(up.port, "topic", "create", "greetings")
    tidelog(up.port, "produce", "greetings", "--key", "k", given="hello\n")
    up.end()
    again = start_up()  # on another port, and without repeating the setting
    again.first_line()
    assert tidelog(again.port, "consume", "greetings", "--keys") == "k\thello\n"
    assert 'num.partitions" = "3"' in (again.directory / "broker-1" / "broker.toml").read_text()


def test_a_killed_broker_is_reported_and_its_successor_stopped_with_the_rest(start_up: StartUp) -> None:
    up = start_up()
    up.first_line()
    tidelog(up.port, "topic", "create", "greetings")
    tidelog(up.port, "produce", "greetings", given="hello\n")
    os.kill(up.broker_pid, signal.SIGKILL)
    report = up.error_line()
    assert "broker 1 was killed by SIGKILL" in report
    config = up.directory / "broker-1" / "broker.toml"
    assert f"tidelog broker --config {config}" in report
    log = (up.directory / "second.log").open("wb")
    with (
        log,
        subprocess.Popen(
            [sys.executable, "-m", "tidelog", "broker", "--config", str(config)], stdout=log, stderr=log
        ) as successor,
    ):
        wait_until(lambda: is_ready(up.port) and up.broker_pid == successor.pid)
        assert tidelog(up.port, "consume", "greetings") == "hello\n"
        assert up.end()[0] == 0
        assert successor.wait(TIMEOUT_S) == 0


def test_a_port_that_is_taken(start_up: StartUp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, output, errors = start_up(port=port).result()
    assert (code, output) == (1, "")
    assert errors == f"tidelog: Port {port} is in use; choose another one with --port.\n"


def test_a_directory_that_is_in_use(start_up: StartUp) -> None:
    start_up().first_line()
    code, output, errors = start_up().result()
    assert (code, output) == (1, "")
    assert "is in use by another `tidelog up`" in errors
    assert errors.count("\n") == 1


def test_a_broker_that_runs_without_us_is_left_alone(start_up: StartUp) -> None:
    up = start_up()
    up.first_line()
    os.kill(up.process.pid, signal.SIGKILL)
    up.process.wait(TIMEOUT_S)
    pid = up.broker_pid
    try:
        code, _, errors = start_up().result()
        assert code == 1
        assert errors.endswith(f"stop it first: kill {pid}\n")
        assert is_ready(up.port)
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not is_ready(up.port))


def test_a_directory_that_cannot_be_made(start_up: StartUp, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, errors = start_up(directory=tmp_path / "file" / "below").result()
    assert code == 1
    assert "cannot be used" in errors
    assert errors.count("\n") == 1


@pytest.mark.parametrize("setting", ["no.such.setting=1", "num.partitions=many"])
def test_a_setting_that_no_broker_takes_is_refused_before_the_start(start_up: StartUp, setting: str) -> None:
    up = start_up("--set", setting)
    code, _, errors = up.result()
    assert code == 1
    assert setting.partition("=")[0] in errors
    assert errors.count("\n") == 1
    assert not (up.directory / "broker-1" / "broker.log").exists()


def test_a_broker_that_dies_while_starting_is_explained_by_its_log(start_up: StartUp, tmp_path: Path) -> None:
    (tmp_path / "not-a-directory").write_text("")
    up = start_up("--set", f"log.dir={tmp_path / 'not-a-directory'}")
    code, output, errors = up.result()
    assert (code, output) == (1, "")
    assert "Broker 1 exited with code 1 while starting" in errors
    assert "not-a-directory" in errors
    assert "Traceback" not in errors
