"""How a workload process tells its parent how far it is, and learns that it should end.

Owns standard input and output of the process. The end of standard input is the request to stop, so a process
also ends when its parent is gone.
"""

import os
import sys
import threading
import time

import msgspec

from tidelog.lab.workload.jobs import Progress

INTERVAL_S = 0.1
_STDIN = 0


class Reporter:
    def __init__(self, partitions: int) -> None:
        self.counts = [0] * partitions
        self.ends = [0] * partitions
        self.failed = 0
        self._stopping = threading.Event()
        self._due = 0.0
        threading.Thread(target=self._await_stop, name="stop", daemon=True).start()

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def wait(self, seconds: float) -> None:
        self._stopping.wait(seconds)

    def note(self, partition: int, offset: int | None, count: int = 1) -> None:
        self.counts[partition] += count
        if offset is not None and offset >= self.ends[partition]:
            self.ends[partition] = offset + 1

    def tell(self, *, is_done: bool = False) -> None:
        """As often as you like: most calls print nothing."""
        now = time.monotonic()
        if now < self._due and not is_done:
            return
        self._due = now + INTERVAL_S
        line = msgspec.json.encode(Progress(self.counts, self.ends, self.failed, is_done))
        try:
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the parent is gone
            self._stopping.set()

    def _await_stop(self) -> None:
        # Not through sys.stdin: a thread that waits in its buffer when the process ends makes Python abort.
        while os.read(_STDIN, 64):
            pass  # until its end
        self._stopping.set()
