"""A Spark standalone cluster from the pyspark package: one master and two workers, each a process."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.process import Child, free_port

START_S = 120.0
WORKERS = 2
WORKER = ("--cores", "1", "--memory", "600m")
_EXECUTOR = b"CoarseGrainedExecutorBackend"


class Standalone:
    """Started when made; ``master`` is what ``--master`` takes."""

    def __init__(self, directory: Path, limits: Sequence[str] = WORKER) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        place = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._master = self._start("master", "Master", *place, "--port", str(port))
        self._master.wait_for_port(port, START_S)
        self._workers = [
            self._start(
                f"worker-{n}", "Worker", *place, *limits, "--work-dir", str(directory / f"w{n}"), self.master
            )
            for n in range(WORKERS)
        ]

    def executors(self) -> list[int]:
        """Process ids of the executors of whatever runs now."""
        below = [pid for worker in self._workers for pid in _descendants(worker.pid)]
        return [pid for pid in below if _EXECUTOR in _command(pid)]

    def stop(self) -> None:
        for server in (*self._workers, self._master):
            server.stop()

    def _start(self, name: str, role: str, *words: str) -> Child:
        import pyspark

        home = Path(pyspark.__file__).parent
        settings = [f"SPARK_HOME={home}", f"PYSPARK_PYTHON={sys.executable}", "SPARK_LOCAL_IP=127.0.0.1"]
        program = ["env", *settings, str(home / "bin" / "spark-class")]
        return Child(
            f"Spark's {name}",
            [*program, f"org.apache.spark.deploy.{role.lower()}.{role}", *words],
            self._directory / f"{name}.log",
        )


@contextmanager
def running_standalone(directory: Path, limits: Sequence[str] = WORKER) -> Iterator[Standalone]:
    """``limits``: cores and memory of each worker."""
    cluster = Standalone(directory, limits)
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
