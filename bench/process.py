"""Child processes of the bench: start, wait until they answer, read their cost from ``/proc``, end them by
pid.

Owns the processes it started and no other. Every child leads its own process group, so that ending it also
ends what it started (``tidelog up`` starts brokers). For the same reason none of them hears the signals meant
for the bench: whichever way this process ends, short of SIGKILL, it first ends those that still run.
"""

import atexit
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_given_ports: set[int] = set()
_running: dict[int, "Child"] = {}  # by pid


class BenchError(Exception):
    """Something outside the bench's power; its text is one plain sentence for the person who runs it."""


def free_port() -> int:
    """A port that nobody listens on, outside the range from which outgoing connections get theirs.

    Otherwise a client's connection could take the port while its broker is down for a restart. None is given
    twice: a broker that is not started yet does not listen, either.
    """
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            if port not in _given_ports and probe.connect_ex(("127.0.0.1", port)):
                _given_ports.add(port)
                return port
    raise BenchError("none of 100 ports tried on 127.0.0.1 is free")


def wait_until(condition: Callable[[], bool], seconds: float, what: str, pause: float = 0.005) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise BenchError(f"{what} did not happen within {seconds:g} s")
        time.sleep(pause)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Child:
    """One process with its output in a file."""

    def __init__(
        self, name: str, command: Sequence[str | Path], output: Path, cwd: Path | None = None
    ) -> None:
        self.name = name
        self._output = output
        with output.open("ab") as sink:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                start_new_session=True,
            )
        self.pid = self._process.pid
        _watch_over(self)

    def wait_for_port(self, port: int, seconds: float) -> None:
        def ready() -> bool:
            self.check_alive()
            return listens(port)

        wait_until(ready, seconds, f"the start of {self.name}")

    def check_alive(self) -> None:
        if self._process.poll() is None:
            return
        tail = " | ".join(self._output.read_text(errors="replace").strip().splitlines()[-4:])
        raise BenchError(
            f"{self.name} ended with code {self._process.returncode}: {tail or 'it said nothing'}"
        )

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{self.name} did not end within {seconds:g} s") from None

    def stop(self, grace_seconds: float = 20) -> None:
        """SIGTERM, and SIGKILL for the whole group when that is not heard in time."""
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_seconds)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        _running.pop(self.pid, None)


def _watch_over(child: Child) -> None:
    _running[child.pid] = child
    end_in_order()


def end_in_order() -> None:
    """From here on SIGTERM ends this process as an exception does, so that what it started is taken down."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: FrameType | None) -> None:
    """As an exception, so that what is being measured is taken down in its own order."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Once is enough; the second would interrupt the clean-up.
    sys.exit(128 + number)


@atexit.register
def _end_all() -> None:
    for child in list(_running.values()):
        child.signal(signal.SIGTERM)
    for child in list(_running.values()):
        child.stop()


def cpu_seconds(pid: int) -> float:
    """User and system time of all threads of a process, ended ones included."""
    # The id of its CPU clock as clock_getcpuclockid(3) makes it: nanoseconds, where /proc counts in 10 ms.
    return time.clock_gettime((~pid << 3) | 2)


def machine_cpu_seconds() -> float:
    """Time that all cores together were busy since the start; what the hypervisor stole counts as busy."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(word) for word in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_SECOND


def resident_mb(pid: int) -> float:
    """Resident memory in MB (10^6 bytes)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise BenchError(f"process {pid} has no resident memory; it has ended")
