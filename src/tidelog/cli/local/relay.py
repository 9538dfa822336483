"""The relay that `tidelog up --demo` puts between its brokers, so that the playground can cut one off.

Owns its process: it is started before the brokers, again whenever it ends, and stopped after them.
"""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tidelog.cli.failure import CommandFailed
from tidelog.cli.local.broker_settings import LocalBroker
from tidelog.cli.local.page import HTTP_PORT
from tidelog.lab.playground import links

LOG = "relay.log"
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0
POLL_S = 0.02
AGAIN_S = 1.0  # between two starts of one that ends at once


class RelayKeeper:
    def __init__(self, directory: Path, report: Callable[[str], None], page_port: int | None = None) -> None:
        """``page_port``: of the page, if it was chosen."""
        self._directory = directory
        self._page_port = page_port
        self._report = report
        self._process: subprocess.Popen[bytes] | None = None
        self._started_s = 0.0

    def start(self, brokers: Sequence[LocalBroker], settings: Mapping[str, object]) -> None:
        """Returns when it runs, so that the brokers find each other at once."""
        if links.SETTING in settings or any(links.SETTING in each.known_settings() for each in brokers):
            self._report(f"{links.SETTING} is set, so brokers cannot be cut off in the playground")
            return
        addresses = {each.broker_id: (each.host, each.port) for each in brokers}
        reserved = [int(str(each.known_settings().get(HTTP_PORT) or 0)) for each in brokers]
        links.write(self._directory, links.make(addresses, [*reserved, self._page_port or 0]))
        self._start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._responds():
            if time.monotonic() > deadline or (
                self._process is not None and self._process.poll() is not None
            ):
                raise CommandFailed(
                    f"The relay between the brokers did not start; see {self._directory / LOG}."
                )
            time.sleep(POLL_S)

    def watch(self) -> None:
        """Start it again if it has ended. Nothing is cut off then."""
        if self._process is None or self._process.poll() is None:
            return
        if time.monotonic() - self._started_s >= AGAIN_S:
            self._report("the relay between the brokers has ended and is started again")
            self._start()

    def stop(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        links.remove(self._directory)

    def _start(self) -> None:
        self._started_s = time.monotonic()
        with (self._directory / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidelog.lab.playground.relay", "--dir", str(self._directory)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                # Out of the terminal's reach: brokers need it until they have stopped.
                start_new_session=True,
            )  # fmt: skip

    def _responds(self) -> bool:
        try:
            links.connect(self._directory).close()
        except OSError:
            return False
        return True
