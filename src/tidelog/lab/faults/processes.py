"""Faults on processes: kill -9, freeze, clean stop, restart.

Knows a cluster by its process ids alone, so that it works on any broker that this machine runs. What is done
to several brokers is done to all of them before the effect on the first is waited for.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from tidelog.lab.faults.errors import FaultError

STOP_TIMEOUT_S = 60.0
POLL_INTERVAL_S = 0.005


class Processes(Protocol):
    """A cluster of processes."""

    @property
    def brokers(self) -> Sequence[int]: ...

    def pid(self, number: int) -> int:
        """RuntimeError if it does not run."""

    def launch(self, number: int) -> None:
        """Start it, and return without waiting."""


def kill(cluster: Processes, numbers: Iterable[int]) -> list[int]:
    """SIGKILL to all of them at once; returns those that ran."""
    found = running(cluster, numbers)
    _end(found, signal.SIGKILL)
    return list(found)


def stop(cluster: Processes, numbers: Iterable[int], timeout_s: float = STOP_TIMEOUT_S) -> list[int]:
    """A clean stop of all of them at once; returns those that ran."""
    found = running(cluster, numbers)
    _end(found, signal.SIGTERM, timeout_s)
    return list(found)


def freeze(cluster: Processes, numbers: Iterable[int]) -> Mapping[int, int]:
    """Returns the processes by broker, for :func:`thaw`."""
    found = running(cluster, numbers)
    for pid in found.values():
        os.kill(pid, signal.SIGSTOP)
    return found


def thaw(frozen: Mapping[int, int]) -> None:
    for pid in frozen.values():
        if is_alive(pid):
            os.kill(pid, signal.SIGCONT)


def launch(cluster: Processes, numbers: Iterable[int]) -> None:
    """Start those that do not run."""
    wanted = list(numbers)
    found = running(cluster, wanted)
    for number in wanted:
        if number not in found:
            cluster.launch(number)


def restart(cluster: Processes, numbers: Iterable[int]) -> None:
    """A clean stop and a start of one broker after the other, in this order. One that was down is started."""
    for number in numbers:
        stop(cluster, [number])
        cluster.launch(number)


def running(cluster: Processes, numbers: Iterable[int]) -> dict[int, int]:
    """The process ids of those of the brokers that run."""
    found = {}
    for number in numbers:
        if number not in cluster.brokers:
            raise FaultError(
                f"There is no broker {number}; there are {', '.join(map(str, cluster.brokers))}."
            )
        with contextlib.suppress(RuntimeError):
            pid = cluster.pid(number)
            if is_alive(pid):
                found[number] = pid
    return found


def is_alive(pid: int) -> bool:
    """Whether the process runs or is frozen. Its parent, which may be us, can still ask for its exit code."""
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except ChildProcessError:  # not a child of ours
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return ended is None


def _end(processes: Mapping[int, int], number: signal.Signals, timeout_s: float = STOP_TIMEOUT_S) -> None:
    for pid in processes.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # a frozen process would never see a request to stop
    deadline = time.monotonic() + timeout_s
    for broker, pid in processes.items():
        while is_alive(pid):
            if time.monotonic() > deadline:
                raise FaultError(f"Broker {broker} did not end within {timeout_s:g} s.")
            time.sleep(POLL_INTERVAL_S)
