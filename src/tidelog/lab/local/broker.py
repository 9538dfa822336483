"""One broker process under a test's control.

Owns the process and the files of a broker directory (``broker.toml``, ``broker.log``, ``data/``: the
layout of ``tidelog up``). Does not know the broker's internals: it starts the public command,
checks over the public protocol whether it responds, and otherwise only sends signals.

======== ============== =========================================================
from     call           to
======== ============== =========================================================
down     start          running (or BrokerError with the end of the broker's log)
running  pause          paused: connected clients see silence, as in a long stall
paused   resume         running
running  stop           down, cleanly; the exit code says whether it went well
any      kill           down, as after a crash: whatever was not on disk is gone
======== ============== =========================================================
"""

import contextlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tidelog.client.cluster_view import responds
from tidelog.client.settings import OPEN
from tidelog.lab.local.secret import NAME as SECRET_NAME
from tidelog.lab.local.secret import SETTING as SECRET
from tidelog.lab.local.secret import make_secret

Setting = str | int | float | bool | Sequence[str]
"""A value of a broker setting, under Kafka's name."""

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
POLL_INTERVAL_S = 0.02

# Below the kernel's range for outgoing connections: while the broker is down between kill and start, no
# client's connection can get its port.
PORTS = range(20_000, 32_000, 8)
"""Every eighth: the holder of a port may use the seven after it, as ``tidelog up`` does for a cluster."""


class BrokerError(Exception):
    """The broker did not do what it should; the message ends with the tail of its log."""


class Broker:
    """A broker process in ``directory``, listening on one address for all of its life.

    Restarting keeps port and data, so clients find it again. ``settings`` are broker settings under Kafka's
    names; they are written to ``broker.toml`` at every start and may be changed in between. ``prefix``
    precedes the command, for a broker that runs on a host of its own (:mod:`tidelog.lab.local.network`).
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, Setting] | None = None,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        self.directory = Path(directory)
        self.settings: dict[str, Setting] = dict(settings or {})
        self.host = host
        self.port = port if port is not None else free_port()
        self.environment: dict[str, str] = {}  # in addition to ours
        self.security = OPEN  # of our own connections to it
        self._prefix = list(prefix)
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        state = f"pid {self._process.pid}" if self._process is not None else "down"
        return f"<{type(self).__name__} {self.bootstrap}, {state}>"

    @property
    def bootstrap(self) -> str:
        """The clients' ``bootstrap.servers``."""
        return f"{self.host}:{self.port}"

    @property
    def node_id(self) -> int:
        return int(str(self.settings.get("node.id", 1)))

    @property
    def is_running(self) -> bool:
        """Whether it was started and not ended by us; one that died by itself still counts."""
        return self._process is not None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def data_directory(self) -> Path:
        return self.directory / "data"

    @property
    def log_path(self) -> Path:
        return self.directory / "broker.log"

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start, and return once it responds. Existing data is kept."""
        self.launch()
        try:
            self._await_response(time.monotonic() + timeout_s)
        except BaseException:
            self.kill()
            raise

    def launch(self) -> None:
        """Start without waiting: for tests of what happens during a start."""
        if self._process is not None:
            raise RuntimeError(f"{self!r} is already running")
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.write_config()
        self.log_path.touch(mode=0o600)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, *self.command()],
                cwd=self.directory,
                env={**os.environ, **self.environment} if self.environment else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask it to stop (SIGTERM), wait, and return its exit code."""
        self.ask_to_stop()
        return self.await_end(timeout_s)

    def ask_to_stop(self) -> None:
        process = self._running()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)  # a paused process would never see the request

    def await_end(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for the end of a broker that was asked to stop, or ends by itself; returns its exit code."""
        process = self._running()
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self.failed(f"the broker did not end within {timeout_s:g} s") from None
        self._process = None
        return code

    def kill(self) -> None:
        """End it at once (SIGKILL), like a crash. Does nothing if it is down."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): its sockets stay open and do not respond."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """A clean stop and a start; raises if the stop was not clean."""
        self.close()
        self.start()

    def close(self) -> None:
        """Stop if running; raises if that failed, or if the process had died unexpectedly."""
        if self._process is None:
            return
        self.check_alive()
        if code := self.stop():
            raise self.failed(f"the broker stopped with exit code {code}")

    def check_alive(self) -> None:
        """Raises if it died unexpectedly."""
        if self._process is not None and (died := self._process.poll()) is not None:
            self._process = None
            raise self.failed(f"the broker ended by itself with exit code {died}")

    def log_text(self) -> str:
        """Everything in its log, over all starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def command(self) -> list[str]:
        """The command that runs it; a subclass may run another Kafka-compatible broker."""
        return [sys.executable, "-m", "tidelog", "broker", "--config", str(self.directory / "broker.toml")]

    def write_config(self) -> None:
        settings: dict[str, Setting] = {
            "node.id": 1,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data_directory),
            SECRET: str(self.directory / SECRET_NAME),
            # A host of a network of the lab's own: no other machine reaches it.
            **({} if self.host == "127.0.0.1" else {"allow.insecure.listeners": True}),
            **self.settings,
        }
        if settings[SECRET]:
            make_secret(self.directory / str(settings[SECRET]))
        else:
            del settings[SECRET]  # "" is for a cluster without a secret.
        # JSON's strings, numbers, booleans and arrays are valid TOML. Quoted keys keep Kafka's dots.
        text = "".join(f"{json.dumps(key)} = {json.dumps(value)}\n" for key, value in settings.items())
        path = self.directory / "broker.toml"
        path.touch(mode=0o600)  # It may have passwords.
        path.write_text(text)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError(f"{self!r} is not running")
        return self._process

    def _await_response(self, deadline: float) -> None:
        process = self._running()
        while not responds(self.host, self.port, security=self.security):
            code = process.poll()
            if code is not None:
                raise self.failed(f"the broker ended with exit code {code} before it answered")
            if time.monotonic() > deadline:
                raise self.failed("the broker did not answer in time")
            time.sleep(POLL_INTERVAL_S)

    def failed(self, reason: str) -> BrokerError:
        """The error for a broker that did not do what it should."""
        return BrokerError(f"{reason}; the end of {self.log_path}:\n{self.log_tail() or '(empty)'}")


@contextlib.contextmanager
def running_broker(
    directory: Path, settings: Mapping[str, Setting] | None = None, *, kind: type[Broker] = Broker
) -> Iterator[Broker]:
    """A broker in ``directory/broker-1`` for the length of a ``with`` block, stopped cleanly at its end."""
    broker = kind(Path(directory) / "broker-1", settings)
    broker.start()
    try:
        yield broker
    except BaseException:
        # The block's own error is more useful than one about the broker's end.
        broker.kill()
        raise
    broker.close()


def is_ready(port: int, timeout_s: float = 5.0) -> bool:
    """Whether a broker on this port of 127.0.0.1 answers an ApiVersions request without error."""
    return responds("127.0.0.1", port, timeout_s)


def free_port() -> int:
    """A free port that neither we nor another worker of this pytest run gave away lately.

    A broker's port is free until the broker listens, and again while it is down; so ports are given out one
    after another, and only from this worker's share.
    """
    for _ in range(200):
        port = next(_ports)
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"none of 200 ports tried between {PORTS.start} and {PORTS.stop} is free")


def share_of_ports(worker: str, workers: str) -> range:
    """The share of :data:`PORTS` of a pytest-xdist worker; without xdist all.

    A worker that takes the place of a crashed one has a number beyond those of the others, and the share of
    one of the first: which of them crashed is not known.
    """
    number = worker.removeprefix("gw")
    if not (number.isdecimal() and workers.isdecimal()):
        return PORTS
    size = len(PORTS) // int(workers)
    return PORTS[int(number) % int(workers) * size :][:size]


def _ports_from_anywhere(ports: range) -> Iterator[int]:
    """Cycles from a start that another run on this machine hardly shares."""
    start = random.randrange(len(ports))
    return itertools.cycle([*ports[start:], *ports[:start]])


_ports = _ports_from_anywhere(
    share_of_ports(os.environ.get("PYTEST_XDIST_WORKER", ""), os.environ.get("PYTEST_XDIST_WORKER_COUNT", ""))
)
