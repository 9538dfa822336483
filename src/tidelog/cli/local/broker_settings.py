"""One broker of this machine: its directory, its settings, and the process we started in it.

Owns ``DIR/broker-N/`` (``broker.toml``, ``broker.log``; the broker itself adds ``broker.pid`` and ``data/``).
Knows a broker only by its command, its files and its port.
"""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tidelog.cli.failure import CommandFailed
from tidelog.cli.settings import merge_broker_settings, read_broker_settings, render_settings
from tidelog.config import BrokerConfig, Raw
from tidelog.errors import TidelogError
from tidelog.lab.local import tls as local_tls
from tidelog.lab.local.secret import NAME as SECRET_NAME
from tidelog.lab.local.secret import SETTING as SECRET
from tidelog.lab.playground import links
from tidelog.lab.playground.programs import is_tidelog

HOST = "127.0.0.1"
LOG_LINES_SHOWN = 5
HEADING = ("Written by `tidelog up`, which keeps your changes. Names and meanings are Kafka's.",)
VOTERS = "controller.quorum.voters"


class LocalBroker:
    """One broker directory and the process we started in it, if any."""

    def __init__(self, directory: Path, broker_id: int, port: int) -> None:
        self.directory = directory
        self.broker_id = broker_id
        self.host = HOST
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None
        self._settings: dict[str, Raw] = {}
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

    @property
    def is_known(self) -> bool:
        """Whether an earlier run left its settings here."""
        return self.config_path.exists()

    def known_settings(self) -> dict[str, Raw]:
        return read_broker_settings(self.config_path) if self.is_known else {}

    def decide(self, settings: Mapping[str, Raw], *, tls: bool = False) -> None:
        """Decide its settings: the file's, ours, then ``settings`` over them; refuse what no broker takes."""
        protocol = local_tls.PROTOCOL if tls else "PLAINTEXT"
        ours: dict[str, Raw] = {"node.id": self.broker_id, "listeners": f"{protocol}://{self.address}"}
        if tls:
            ours |= local_tls.broker_settings(self.broker_id, Path("..") / local_tls.DIRECTORY)
        given = dict(settings)
        if str(given.get("http.port", "")).isdecimal() and int(str(given["http.port"])):
            given["http.port"] = int(str(given["http.port"])) + self.broker_id - 1
        self._settings = merge_broker_settings(self.known_settings(), ours, given)
        self._read_address()

    def recall(self) -> None:
        """Take the settings from its file as they are."""
        self._settings = self.known_settings()
        self._read_address()

    def _read_address(self) -> None:
        listener = self._parsed().listeners[0]
        self.host, self.port = HOST if listener.every_interface else listener.host, listener.port

    def _parsed(self) -> BrokerConfig:
        try:
            return BrokerConfig.parse(self._settings)
        except TidelogError:
            try:
                BrokerConfig.parse(self.known_settings())
            except TidelogError as error:  # Not what was typed is wrong, but what the file has.
                raise CommandFailed(f"{self.config_path}: {error.message}") from None
            raise

    def write_config(self, voters: str | None) -> None:
        """``None``: this broker decides alone, which it does without being told."""
        secret: dict[str, Raw] = {SECRET: f"../{SECRET_NAME}"}
        wanted = merge_broker_settings(secret, self._settings, {VOTERS: voters} if voters else {})
        BrokerConfig.parse(wanted)
        # An unchanged file is not touched, so that its comments live as long as possible.
        if wanted != self.known_settings():
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.config_path.touch(mode=0o600)  # It may have passwords.
            self.config_path.write_text(render_settings(wanted, HEADING), encoding="utf-8")

    def start(self) -> None:
        self.log_path.touch(mode=0o600)
        with self.log_path.open("ab") as log:
            self._log_begin = log.tell()
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tidelog",
                    "broker",
                    "--config",
                    str(self.config_path),
                    *links.words_for(self.directory.parent, self.broker_id),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Out of the terminal's reach: Ctrl-C comes to us alone, and we stop the brokers in order.
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        return None if self.process is None else self.process.poll()

    def check_started(self) -> None:
        """Raises with the end of its log if it has ended."""
        if (code := self.exit_code()) is not None:
            raise CommandFailed(
                f"Broker {self.broker_id} {describe_exit(code)} while starting; "
                f"the end of {self.log_path}:\n{self._log_tail() or '  (empty)'}"
            )

    def running_pid(self) -> int | None:
        """The process that is this broker now: our child, or the one its pid file names."""
        if self.process is not None and self.process.poll() is None:
            return self.process.pid
        try:
            pid = int((self.directory / "broker.pid").read_text())
        except (OSError, ValueError):
            return None
        return pid if is_tidelog(pid) else None

    def _log_tail(self) -> str:
        try:
            text = self.log_path.read_bytes()[self._log_begin :].decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(f"  {line}" for line in text.splitlines()[-LOG_LINES_SHOWN:])


def describe_exit(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
