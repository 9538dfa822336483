"""A Spark standalone cluster from the pyspark package: one master, two workers, each a process."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pyspark

from tidelog.testing.broker import free_port

from .processes import wait_until

HOME = Path(pyspark.__file__).parent
EXECUTOR = b"CoarseGrainedExecutorBackend"


class Standalone:
    """Started when made; ``master`` is what ``--master`` takes."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self._directory = directory
        self._port = free_port()
        self.master = f"spark://127.0.0.1:{self._port}"
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._master = self._start("master", "Master", *place, "--port", str(self._port))
        wait_until(self._listens, self._log("master").read_text)
        limits = ["--cores", "1", "--memory", "600m"]
        self.workers = [
            self._start(
                f"worker-{n}", "Worker", *place, *limits, "--work-dir", str(directory / f"w{n}"), self.master
            )
            for n in range(workers)
        ]

    def executors(self) -> list[int]:
        """Process ids of the executors of whatever runs now."""
        return [
            pid for worker in self.workers for pid in _descendants(worker.pid) if EXECUTOR in _command(pid)
        ]

    def stop(self) -> None:
        for process in (*self.workers, self._master):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, role: str, *words: str) -> subprocess.Popen[bytes]:
        command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{role.lower()}.{role}", *words]
        environment = {
            **os.environ,
            "SPARK_HOME": str(HOME),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        with self._log(name).open("ab") as file:
            return subprocess.Popen(
                command, stdout=file, stderr=file, env=environment, start_new_session=True
            )

    def _log(self, name: str) -> Path:
        path = self._directory / f"{name}.log"
        path.touch()
        return path

    def _listens(self) -> bool:
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0


@contextmanager
def running_standalone(directory: Path) -> Iterator[Standalone]:
    cluster = Standalone(directory)
    try:
        yield cluster
    finally:
        cluster.stop()


def _descendants(pid: int) -> list[int]:
    """Of all threads: a JVM starts processes from any of them."""
    children: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            children += [int(word) for word in path.read_text().split()]
    return children + [below for child in children for below in _descendants(child)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
