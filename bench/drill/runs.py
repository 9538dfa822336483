"""``tidelog pipeline …`` as processes, and the timer that starts the archive again and again.

A driver, its JVM and its Python workers are one process group: killed together, as when their machine dies.

========== =========================================================================
finished   exit code 0
killed     by the drill
refused    another run has the lock
failed     ended with one sentence, which the report shows
broken     ended with a trace, or not at all
========== =========================================================================
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.drill.topics import Topics
from bench.drill.writing import Schema
from bench.process import BenchError

OUTCOMES = ("finished", "killed", "refused", "failed", "broken")
HANGS_S = 600.0
PAUSE_S = 2.0  # Between two runs of the timer.
ROWS_PER_STEP = 3000
POLL_S = 0.002
_REFUSED = ("Another run has", "Another run took over")
_TRACES = ("Traceback (most recent call last)", "\tat org.apache", "\tat java.")


class Run:
    """One process, started when made."""

    def __init__(self, name: str, words: Sequence[str], directory: Path, fields: int) -> None:
        self.name = name  # Of the command.
        self.fields = fields  # Of its schema.
        self.ends: dict[tuple[str, int], int] = {}  # See Topics.stable_ends.
        self.outcome = ""
        self._output, self._errors = directory / f"{name}.out", directory / f"{name}.err"
        self._is_killed = False
        command = [sys.executable, "-m", "tidelog", "pipeline", *words]
        with self._output.open("wb") as output, self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                env=environment(),
                start_new_session=True,
            )
        self._over = threading.Event()
        threading.Thread(target=self._watch, name=name, daemon=True).start()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def wait(self, seconds: float = HANGS_S + 60) -> str:
        if not self._over.wait(seconds):
            raise BenchError(f"{self.name} did not end within {seconds:g} s")
        return self.outcome

    def kill(self) -> None:
        if not self.is_over:
            self._is_killed = True
            self._kill()

    @property
    def result(self) -> Any:
        text = self._output.read_text()
        return json.loads(text) if text.strip() else None

    @property
    def sentence(self) -> str:
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "it said nothing"

    def _watch(self) -> None:
        try:
            code = self._process.wait(HANGS_S)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
            self.outcome = "broken"
            with self._errors.open("a") as errors:
                errors.write(f"\nit hung for {HANGS_S:g} s\n")
        else:
            self.outcome = self._judge(code)
        self._over.set()

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)

    def _judge(self, code: int) -> str:
        if code == 0:
            return "finished"
        if self._is_killed and code < 0:
            return "killed"
        text = self._errors.read_text(errors="replace")
        if any(sign in text for sign in _TRACES) or not text.strip():
            return "broken"
        return "refused" if any(word in text for word in _REFUSED) else "failed"


@dataclass(slots=True)
class Pipelines:
    """Starts runs and keeps them."""

    topics: Topics
    schema: Schema
    bootstrap: str
    target: Path
    table_format: str
    directory: Path  # Of their output.
    spark: Sequence[str]  # Options of every command.
    decodes: bool = True
    runs: list[Run] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def archive(self) -> Run:
        ends = self.topics.stable_ends()
        with self._lock:
            fields = self.schema.archived
            words = [
                ",".join(self.topics.all), "--bootstrap", self.bootstrap, "--to", str(self.target),
                "--table-format", self.table_format, "--rows-per-step", str(ROWS_PER_STEP),
            ]  # fmt: skip
            if self.decodes:
                words += ["--format", "json", "--schema", self.schema.columns(fields)]
            run = self._start("archive", words, fields)
            run.ends = ends
            return run

    def upkeep(self, command: str) -> Run:
        more = ["--older-than", "5 seconds"] if command == "expire" else []
        with self._lock:
            return self._start(command, [str(self.target), *more])

    def audit(self) -> Run:
        """Replicas with each other, and the archive with the topics."""
        with self._lock:
            return self._start("audit", ["--archive", str(self.target), "--bootstrap", self.bootstrap])

    def settle_schema(self) -> None:
        """Values get the fields that all living runs know."""
        with self._lock:
            living = [run.fields for run in self.runs if not run.is_over and run.name.startswith("archive")]
            self.schema.written = min([self.schema.archived, *living])

    def wait_for_all(self) -> None:
        for run in list(self.runs):
            run.wait()

    def kill_all(self) -> None:
        for run in list(self.runs):
            run.kill()

    @property
    def covered(self) -> dict[tuple[str, int], int]:
        found: dict[tuple[str, int], int] = {}
        for run in self.runs:
            if run.outcome == "finished":
                for place, end in run.ends.items():
                    found[place] = max(end, found.get(place, 0))
        return found

    def _start(self, command: str, words: Sequence[str], fields: int = 0) -> Run:
        name = f"{command}-{len(self.runs) + 1:03}"
        run = Run(name, [command, *words, *self.spark, "--json"], self.directory, fields)
        self.runs.append(run)
        return run


class Timer(threading.Thread):
    """Starts the archive, waits until it ends, and again."""

    def __init__(self, pipelines: Pipelines) -> None:
        super().__init__(name="timer", daemon=True)
        self._pipelines = pipelines
        self._ended = threading.Event()
        self.between_runs = threading.Lock()  # Held while a run lasts.
        self.current: Run | None = None
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                with self.between_runs:
                    self.current = self._pipelines.archive()
                    self.current.wait()
                self._pipelines.settle_schema()
                self._ended.wait(PAUSE_S)
        except Exception as failure:  # told by the drill, in whose thread it would be lost
            self.failure = failure

    def end(self) -> None:
        self._ended.set()

    def await_run(self, seconds: float) -> Run | None:
        """The run that lives now, or the next."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.failure is None:
            run = self.current
            if run is not None and not run.is_over:
                return run
            time.sleep(0.02)
        return None


def kill_at_change(run: Run, directory: Path, delay_s: float) -> None:
    """When the run has changed something there, and a moment later; or when it ends."""
    _wait_while(run, _unchanged(directory))
    time.sleep(delay_s)
    run.kill()


def kill_after(run: Run, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    _wait_while(run, lambda: time.monotonic() < deadline)
    run.kill()


def _wait_while(run: Run, condition: Callable[[], bool]) -> None:
    while not run.is_over and condition():
        time.sleep(POLL_S)


def _unchanged(directory: Path) -> Callable[[], bool]:
    before = _names(directory)
    return lambda: _names(directory) == before


def _names(directory: Path) -> list[str]:
    try:
        return sorted(one.name for one in directory.iterdir())
    except FileNotFoundError:
        return []


def environment() -> dict[str, str]:
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
