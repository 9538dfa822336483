"""CPU time and memory of the brokers, read from the operating system a few times a second.

Owns the sampling. ``/proc`` on Linux, ``ps`` elsewhere.
"""

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

INTERVAL_S = 0.25

Pids = Callable[[], Mapping[int, int]]
"""Process ids by broker, of those that run now."""


class Used(NamedTuple):
    cpu_us: int  # since the process was started
    rss_bytes: int


def used_by(pid: int) -> Used | None:
    """None: it is gone."""
    if Path("/proc/self/stat").exists():
        return _from_proc(pid)
    return _from_ps(pid)


def _from_proc(pid: int) -> Used | None:
    try:
        # The name in parentheses may have blanks.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = int(fields[11]) + int(fields[12])
    return Used(ticks * 1_000_000 // os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))


def _from_ps(pid: int) -> Used | None:
    found = subprocess.run(["ps", "-o", "time=,rss=", "-p", str(pid)], capture_output=True, text=True)
    words = found.stdout.split()
    if len(words) != 2:
        return None
    seconds = 0.0
    for part in words[0].replace("-", ":").split(":"):
        seconds = seconds * 60 + float(part)
    return Used(int(seconds * 1e6), int(words[1]) * 1024)


class UsageSampler:
    """Calls ``note(broker, pid, used)`` for each broker, in a thread."""

    def __init__(self, pids: Pids, note: Callable[[int, int, Used], None]) -> None:
        self._pids, self._note = pids, note
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
            self._look()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._look()
            self._stopping.wait(INTERVAL_S)

    def _look(self) -> None:
        with contextlib.suppress(RuntimeError, OSError):  # a broker that ends in this moment
            for broker, pid in dict(self._pids()).items():
                if (used := used_by(pid)) is not None:
                    self._note(broker, pid, used)
