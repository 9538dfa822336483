"""How late this machine is: what a busy one adds to every exchange of any process.

Owns a thread that asks for short sleeps, and now and then for a small synced write beside the brokers' data,
and notes by how much each took longer than it should. It knows nothing about the brokers: a slow broker gives
itself no more time.
"""

import contextlib
import os
import threading
import time
from pathlib import Path

SLEEP_S = 0.02
SYNC_EVERY = 25  # sleeps
SYNC_S = 0.02  # An ordinary disk takes so long.


class Lateness:
    def __init__(self, directory: Path) -> None:
        """``directory`` is on the disk that counts."""
        self._path = directory / "lateness"
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lateness", daemon=True)
        self.worst_s = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """More than once is fine, and without a start."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._path.unlink(missing_ok=True)

    def _run(self) -> None:
        turn = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            self._stopping.wait(SLEEP_S)
            if not self._stopping.is_set():
                self._note(time.monotonic() - began - SLEEP_S)
            turn += 1
            if turn % SYNC_EVERY == 0:
                self._note(self._sync_s() - SYNC_S)

    def _sync_s(self) -> float:
        began = time.monotonic()
        with contextlib.suppress(OSError):  # no space: the load will say so
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.pwrite(file, b"x" * 512, 0)
                os.fsync(file)
            finally:
                os.close(file)
        return time.monotonic() - began

    def _note(self, late_s: float) -> None:
        self.worst_s = max(self.worst_s, late_s)
