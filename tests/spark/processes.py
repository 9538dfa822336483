"""Pipelines and Spark's servers as processes of their own, to be killed: a driver with its JVM and its Python
workers is one group.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
POLL_S = 0.1
WAIT_S = 400.0

QUICK = ("--conf", "spark.sql.shuffle.partitions=2", "--conf", "spark.driver.memory=600m")


class Pipeline:
    """``tidelog pipeline …`` in the background."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self._log = log
        command = [sys.executable, "-m", "tidelog", "pipeline", *words, *QUICK, "--json"]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=file, env=_environment(), start_new_session=True
            )

    def kill(self) -> None:
        """Driver, JVM and workers at once, as when their machine dies."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ask_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """While it runs: what a process that ended has not done will not happen."""

        def holds() -> bool:
            assert self.process.poll() is None or condition(), self._log.read_text()[-4000:]
            return condition()

        wait_until(holds, self._log.read_text)

    def result(self) -> Any:
        """What it printed, once it ended well."""
        output, _ = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, self._log.read_text()[-4000:]
        return json.loads(output)

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


class SparkServer:
    """A program of the pyspark package that listens on a port of this machine."""

    def __init__(self, program: str, words: Sequence[str], log: Path) -> None:
        command = [str(SPARK_HOME / "bin" / program), *words]
        environment = _environment() | {"SPARK_HOME": str(SPARK_HOME)}
        self._log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=file, env=environment, start_new_session=True
            )

    def wait_for_port(self, port: int) -> None:
        def listens() -> bool:
            assert self.process.poll() is None, self._log.read_text()[-4000:]
            with closing(socket.socket()) as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until(listens, self._log.read_text)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def wait_until(condition: Callable[[], bool], otherwise: Callable[[], str] = lambda: "") -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {WAIT_S:g} s {otherwise()}"
        time.sleep(POLL_S)
