"""Brokers on this machine as child processes: directories, start, watch, stop.

Owns ``DIR/broker-N/`` (``broker.toml``, ``broker.log``; the broker itself adds ``broker.pid`` and ``data/``)
and the lock that keeps two of us out of one DIR. Knows a broker only by its command, its files and its port.

A broker that dies after the start is reported and left down: someone may have killed it on purpose and will
start it again with ``tidelog broker``. Stopping therefore also stops a broker that was started in its place.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO

from tidelog.cli.failure import CommandFailed
from tidelog.cli.probe import is_free, is_ready
from tidelog.cli.settings import merge_broker_settings, read_broker_settings, render_settings
from tidelog.config import BrokerConfig, Raw

HOST = "127.0.0.1"
LOG_LINES_SHOWN = 5
STOP_TIMEOUT_S = 30.0
START_POLL_S = 0.02
WATCH_POLL_S = 0.1
STILL_STARTING_AFTER_S = 10.0
HEADING = ("Written by `tidelog up`, which keeps what you change here; names and meanings are Kafka's.",)


class LocalBroker:
    """One broker directory and the process we started in it, if any."""

    def __init__(self, directory: Path, broker_id: int, port: int) -> None:
        self.directory = directory
        self.broker_id = broker_id
        self.host = HOST
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self._log_begin = 0  # where this start's part of broker.log begins

    @property
    def config_path(self) -> Path:
        return self.directory / "broker.toml"

    @property
    def log_path(self) -> Path:
        return self.directory / "broker.log"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def write_config(self, settings: Mapping[str, Raw]) -> None:
        """Keep the file's settings, put ours, then ``settings`` over them; refuse what no broker takes."""
        before = read_broker_settings(self.config_path) if self.config_path.exists() else {}
        ours: dict[str, Raw] = {"node.id": self.broker_id, "listeners": f"PLAINTEXT://{self.address}"}
        wanted = merge_broker_settings(before, ours, settings)
        listener = BrokerConfig.parse(wanted).listeners[0]
        self.host, self.port = HOST if listener.every_interface else listener.host, listener.port
        # An unchanged file is not touched, so that its comments live as long as possible.
        if wanted != before:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.config_path.write_text(render_settings(wanted, HEADING), encoding="utf-8")

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self._log_begin = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidelog", "broker", "--config", str(self.config_path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Out of the terminal's reach: Ctrl-C comes to us alone, and we stop the brokers in order.
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        return None if self.process is None else self.process.poll()

    def log_tail(self) -> str:
        try:
            text = self.log_path.read_bytes()[self._log_begin :].decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(f"  {line}" for line in text.splitlines()[-LOG_LINES_SHOWN:])

    def running_pid(self) -> int | None:
        """The process that is this broker now: our child, or the one its pid file names."""
        if self.process is not None and self.process.poll() is None:
            return self.process.pid
        try:
            pid = int((self.directory / "broker.pid").read_text())
        except (OSError, ValueError):
            return None
        return pid if is_tidelog(pid) else None


def is_tidelog(pid: int) -> bool:
    """Whether this process runs Tidelog: after a crash a pid file may name a stranger."""
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline")
        return b"tidelog" in command.read_bytes() if Path("/proc/self").exists() else True
    except OSError:
        return False


def describe_exit(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def lock_directory(directory: Path) -> IO[bytes]:
    """Hold DIR as long as the returned file stays open; a killed holder's lock is gone with it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("ab")
    except OSError as error:
        raise CommandFailed(f"{directory} cannot be used: {error.strerror}.") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise CommandFailed(
            f"{directory} is in use by another `tidelog up`; choose another one with --dir."
        ) from None
    return lock


class LocalCluster:
    """The brokers of one DIR. Use: ``start``, ``wait_ready``, ``watch`` until asked to stop, ``stop``."""

    def __init__(self, brokers: Iterable[LocalBroker], report: Callable[[str], None]) -> None:
        self.brokers = list(brokers)
        # Set by a signal handler; a plain flag, because a handler that takes a lock can meet itself there.
        self.stopping = False
        self._report = report

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def start(self, settings: Mapping[str, Raw]) -> None:
        for broker in self.brokers:
            if (pid := broker.running_pid()) is not None:
                raise CommandFailed(
                    f"Broker {broker.broker_id} of this directory runs already, as process {pid}."
                )
            broker.write_config(settings)
            if not is_free(broker.host, broker.port):
                raise CommandFailed(f"Port {broker.port} is taken; choose another one with --port.")
        for broker in self.brokers:
            broker.start()

    def wait_ready(self) -> bool:
        """True once all brokers take requests, False if asked to stop before; a dead one is a failure."""
        patience_ends = time.monotonic() + STILL_STARTING_AFTER_S
        waiting = list(self.brokers)
        while waiting and not self.stopping:
            for broker in waiting:
                if (code := broker.exit_code()) is not None:
                    raise CommandFailed(
                        f"Broker {broker.broker_id} {describe_exit(code)} while starting; "
                        f"the end of {broker.log_path}:\n{broker.log_tail() or '  (empty)'}"
                    )
            waiting = [broker for broker in waiting if not is_ready(broker.host, broker.port)]
            if waiting and time.monotonic() > patience_ends:
                # Not a failure: after a crash a broker may have a long log to check.
                self._report(f"broker {waiting[0].broker_id} is still starting; see {waiting[0].log_path}")
                patience_ends = time.monotonic() + STILL_STARTING_AFTER_S
            if waiting:
                time.sleep(START_POLL_S)
        return not waiting

    def watch(self) -> None:
        """Report brokers that die, until asked to stop."""
        up = list(self.brokers)
        while not self.stopping:
            time.sleep(WATCH_POLL_S)
            for broker in up.copy():
                if (code := broker.exit_code()) is not None:
                    up.remove(broker)
                    self._report(
                        f"broker {broker.broker_id} {describe_exit(code)} (log: {broker.log_path}); "
                        f"start it again with: tidelog broker --config {broker.config_path}"
                    )

    def stop(self) -> None:
        """Ask all to stop at once, then wait for each; one that will not stop is ended and named."""
        running = [(broker, pid) for broker in self.brokers if (pid := broker.running_pid()) is not None]
        for _, pid in running:
            _send(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for broker, pid in running:
            while broker.running_pid() == pid:
                if time.monotonic() > deadline:
                    self._report(
                        f"broker {broker.broker_id} did not stop within {STOP_TIMEOUT_S:.0f} s and was killed"
                    )
                    _send(pid, signal.SIGKILL)
                    deadline = time.monotonic() + STOP_TIMEOUT_S
                time.sleep(START_POLL_S)
            code = broker.exit_code()
            if code and broker.process is not None and broker.process.pid == pid:
                self._report(f"broker {broker.broker_id} {describe_exit(code)}; see {broker.log_path}")


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it was quicker than we were
        os.kill(pid, number)
