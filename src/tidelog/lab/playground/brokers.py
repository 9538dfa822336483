"""The broker processes that `tidelog up` runs in a directory, found by their pid files.

A broker that is started here is in a session of its own: it goes on when the playground ends, and
`tidelog up` stops it with the others.
"""

import contextlib
import subprocess
import sys
from pathlib import Path

from tidelog.lab.faults.errors import FaultError
from tidelog.lab.playground import links
from tidelog.lab.playground.cutting import LinkWiring
from tidelog.lab.playground.programs import has_word, is_tidelog

NO_CUT = (
    "Brokers cannot be cut off here, because they connect to each other directly. Those of "
    "`tidelog up --demo` do so through a relay, which can cut."
)


class LocalBrokers:
    """What faults on processes and lines need of a cluster: :class:`~tidelog.lab.faults.lines.Wired`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: list[subprocess.Popen[bytes]] = []
        self.wiring = LinkWiring(directory)

    @property
    def brokers(self) -> tuple[int, ...]:
        names = (path.parent.name[7:] for path in self._directory.glob("broker-*/broker.toml"))
        return tuple(sorted(int(name) for name in names if name.isdecimal()))

    def pid(self, number: int) -> int:
        """RuntimeError if it does not run."""
        self._reap()
        try:
            pid = int((self._directory / f"broker-{number}" / "broker.pid").read_text())
            if pid > 0 and is_tidelog(pid):
                return pid
        except (OSError, ValueError):
            pass
        raise RuntimeError(f"broker {number} does not run")

    def runs(self, number: int) -> bool:
        with contextlib.suppress(RuntimeError):
            return self.pid(number) > 0
        return False

    def why_no_cut(self) -> str:
        """A sentence; empty: brokers can be cut off. One that others started may bypass the relay."""
        found = links.in_force(self._directory)
        if found is None:
            return NO_CUT
        running = (number for number in self.brokers if self.runs(number))
        return next(filter(None, (self._why_unlinked(number, found) for number in running)), "")

    def launch(self, number: int) -> None:
        """Start it, and return without waiting."""
        home = self._directory / f"broker-{number}"
        try:
            with (home / "broker.log").open("ab") as log:
                child = subprocess.Popen(
                    [sys.executable, "-m", "tidelog", "broker", "--config", str(home / "broker.toml"),
                     *links.words_for(self._directory, number)],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            raise FaultError(f"Broker {number} cannot be started: {error.strerror}.") from None
        self._children.append(child)

    def _why_unlinked(self, number: int, found: links.Links) -> str:
        setting = found.setting(number)
        if not setting:
            return f"Brokers cannot be cut off: `tidelog up` did not start broker {number}."
        with contextlib.suppress(RuntimeError):  # It has just ended.
            if not has_word(self.pid(number), setting):
                return (
                    f"Brokers cannot be cut off before broker {number} is restarted: it bypasses the relay."
                )
        return ""

    def _reap(self) -> None:
        """A child that has ended is no broker, but keeps its id until it is asked for its exit code."""
        self._children = [child for child in self._children if child.poll() is None]
