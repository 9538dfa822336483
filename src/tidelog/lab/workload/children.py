"""Workload processes from their parent's side: started, watched, started again after a crash, stopped.

Owns the processes. What they found out is in their histories; here is only how far they are.
"""

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec

from tidelog.lab.workload.jobs import HISTORY_FAILED, Job, Progress, write_job

CRASHES_MAX = 5  # of one process in one round: then something is wrong with the workload itself
STDERR_TAIL = 2000


class Child:
    """One process, in all of its incarnations."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.progress = Progress([0] * job.partitions, [0] * job.partitions)
        self.counts_before = [0] * job.partitions  # of incarnations that have ended
        self.ends_before = [0] * job.partitions
        self.crashes = 0
        self.failure: str | None = None
        self._stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher = threading.Thread(target=self._watch, name=f"watch {job.name}", daemon=True)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    @property
    def counts(self) -> list[int]:
        return [before + now for before, now in zip(self.counts_before, self.progress.counts, strict=True)]

    @property
    def ends(self) -> list[int]:
        """Exclusive, by partition."""
        return [max(pair) for pair in zip(self.ends_before, self.progress.ends, strict=True)]

    def start(self) -> None:
        self._launch()
        self._watcher.start()

    def ask_to_stop(self) -> None:
        self._stopping = True
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def await_end(self, timeout_s: float) -> None:
        """It ends by itself, or is killed then: what it wrote stays."""
        if self._watcher.ident is None:
            return  # never started
        self._watcher.join(timeout_s)
        if self._watcher.is_alive():
            self.kill()
            self._watcher.join()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _launch(self) -> None:
        path = write_job(self.job)
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidelog.lab.workload.process", str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    @property
    def _errors(self) -> Path:
        return self.job.path.with_suffix(".err")

    def _watch(self) -> None:
        while self._follow():
            self.crashes += 1
            if self._is_hopeless():
                tail = self._errors.read_text(errors="replace")[-STDERR_TAIL:].strip()
                self.failure = f"{self.job.name} ended too early: {tail or 'without a word'}"
                return
            time.sleep(0.1 * self.crashes)
            self.counts_before, self.ends_before = self.counts, self.ends
            self.progress = Progress([0] * self.job.partitions, [0] * self.job.partitions)
            self.job = msgspec.structs.replace(self.job, incarnation=self.job.incarnation + 1)
            self._launch()
            self._stop_if_asked()

    def _is_hopeless(self) -> bool:
        """Whether another incarnation would not help."""
        code = None if self._process is None else self._process.returncode
        return self._stopping or self.crashes > CRASHES_MAX or code == HISTORY_FAILED

    def _stop_if_asked(self) -> None:
        """The request may have come between two incarnations."""
        if self._stopping:
            self.ask_to_stop()

    def _follow(self) -> bool:
        """Until the process ends; whether it crashed."""
        process = self._process
        if process is None or process.stdout is None:
            raise RuntimeError(f"{self.job.name} was not started")
        decode = msgspec.json.Decoder(Progress).decode
        for line in process.stdout:
            with contextlib.suppress(msgspec.DecodeError):  # the torn last line of a crash
                self.progress = decode(line)
        process.wait()
        process.stdout.close()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        return not self.progress.is_done
