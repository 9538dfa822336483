"""The broker processes that `tidelog up` runs in a directory, found by their pid files.

A broker that is started here is in a session of its own: it goes on when the playground ends, and
`tidelog up` stops it with the others.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from tidelog.lab.faults.errors import FaultError


class LocalBrokers:
    """What faults on processes need of a cluster: :class:`~tidelog.lab.faults.processes.Processes`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def brokers(self) -> tuple[int, ...]:
        names = (path.parent.name[7:] for path in self._directory.glob("broker-*/broker.toml"))
        return tuple(sorted(int(name) for name in names if name.isdecimal()))

    def pid(self, number: int) -> int:
        """RuntimeError if it does not run."""
        self._reap()
        try:
            pid = int((self._directory / f"broker-{number}" / "broker.pid").read_text())
            if pid > 0 and _is_broker(pid):
                return pid
        except (OSError, ValueError):
            pass
        raise RuntimeError(f"broker {number} does not run")

    def runs(self, number: int) -> bool:
        with contextlib.suppress(RuntimeError):
            return self.pid(number) > 0
        return False

    def launch(self, number: int) -> None:
        """Start it, and return without waiting."""
        home = self._directory / f"broker-{number}"
        try:
            with (home / "broker.log").open("ab") as log:
                child = subprocess.Popen(
                    [sys.executable, "-m", "tidelog", "broker", "--config", str(home / "broker.toml")],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise FaultError(f"Broker {number} cannot be started: {error.strerror}.") from None
        self._children.append(child)

    def _reap(self) -> None:
        """A child that has ended is nobody's broker, but keeps its id until it is asked for its exit code."""
        self._children = [child for child in self._children if child.poll() is None]


def _is_broker(pid: int) -> bool:
    """Whether this process runs Tidelog: after a crash a pid file may name a stranger. One that has ended and
    was not waited for has no command.
    """
    try:
        os.kill(pid, 0)
        command = Path(f"/proc/{pid}/cmdline")
        return b"tidelog" in command.read_bytes() if Path("/proc/self").exists() else True
    except OSError:
        return False
