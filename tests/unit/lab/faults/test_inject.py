"""Faults that cannot have an effect are refused."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tidelog.lab.faults.inject import FaultError, Parties, inject


class OneOfTwo:
    """Broker 1 runs, broker 2 is down."""

    brokers = (1, 2)

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.launched: list[int] = []

    def pid(self, number: int) -> int:
        if number != 1:
            raise RuntimeError("down")
        return self._pid

    def launch(self, number: int) -> None:
        self.launched.append(number)


@pytest.fixture
def cluster() -> Iterator[OneOfTwo]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield OneOfTwo(process.pid)
    process.kill()
    process.wait()


@pytest.mark.parametrize("fault", ["kill", "stop", "freeze"])
def test_a_fault_on_a_broker_that_is_down_says_nothing_about_the_cluster(
    cluster: OneOfTwo, fault: str
) -> None:
    with pytest.raises(FaultError, match="The fault has no effect: broker 2 does not run"):
        inject(cluster, fault, Parties((2,)))


def test_those_that_run_are_hit_and_started_again(cluster: OneOfTwo) -> None:
    fault = inject(cluster, "kill", Parties((1, 2)))
    assert os.waitid(os.P_PID, cluster.pid(1), os.WEXITED | os.WNOWAIT).si_status == signal.SIGKILL  # type: ignore[union-attr]
    fault.heal()
    assert cluster.launched == [1]
