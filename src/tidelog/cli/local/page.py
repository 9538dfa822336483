"""The web page that `tidelog up` starts beside its brokers once they are ready: a process of its own."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tidelog.cli.local.broker_settings import LocalBroker
from tidelog.cli.page.commands import DEFAULT_PORT, HOST, LINE
from tidelog.client.ports import is_free

LOG = "page.log"
STOP_TIMEOUT_S = 5.0
HTTP_PORT = "http.port"
AWAY = 10_000  # from the broker's port
PORT_MAX = 65_535


def http_ports(brokers: Sequence[LocalBroker], settings: Mapping[str, str]) -> dict[str, str]:
    """Ports on which the page reads what the Kafka protocol does not tell, where no setting names any."""
    said = [broker.known_settings().get(HTTP_PORT) for broker in brokers]
    known = [int(str(each or 0)) for each in said]
    if HTTP_PORT in settings or all(known) or any(each is not None and not int(str(each)) for each in said):
        return {}
    first = known[0] or _http_port_beside(brokers[0].port)
    new = [first + number for number, port in enumerate(known) if not port]
    return {HTTP_PORT: str(first)} if all(is_free(HOST, port) for port in new) else {}


def _http_port_beside(port: int) -> int:
    return port + AWAY if port < PORT_MAX - 2 * AWAY else port - AWAY


class PageProcess:
    """Without it the cluster is complete: whatever fails here is reported, and nothing stops."""

    def __init__(
        self, directory: Path, port: int | None, report: Callable[[str], None], *, words: Sequence[str] = ()
    ) -> None:
        """``words``: more options of `tidelog page`."""
        self._directory = directory
        self._words = list(words)
        self._log = directory / LOG
        self._port = port
        self._report = report
        self._process: subprocess.Popen[str] | None = None

    def start(self, bootstrap: str) -> str:
        """Its address, with the token of the playground; empty: it did not start."""
        usual = DEFAULT_PORT if is_free(HOST, DEFAULT_PORT) else 0
        port = usual if self._port is None else self._port
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "tidelog", "page", "--bootstrap", bootstrap, "--port", str(port),
                    "--playground", str(self._directory), *self._words,
                ],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                # Out of the terminal's reach: Ctrl-C comes to us alone.
                start_new_session=True,
            )  # fmt: skip
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if line.startswith(LINE):
            return line.removeprefix(LINE).strip()
        self._report(f"the page did not start; see {self._log}")
        return ""

    def stop(self) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
