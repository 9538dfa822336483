"""The relay as the lab sees it: a process that is told about links and shapes.

Its own process, because the bytes of the whole cluster go through it: in a thread it would share Python's
lock with the lab, or with the test of a user.
"""

import json
import subprocess
import sys
from typing import Any

from tidelog.lab.network.shape import Shape

END_TIMEOUT_S = 10.0


class RelayError(Exception):
    """The relay does not do what it should; the message says why."""


class RelayProcess:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidelog.lab.network.relay"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def link(
        self, source: str, target: str, port: int, address: tuple[str, int], silence_s: float | None
    ) -> None:
        """Connections from ``source`` to ``target``, which listens at ``address``, go through ``port``.
        ``silence_s``: a connection that is cut for longer is reset; None: it is not.
        """
        self._tell(source, target, port=port, address=address, silence_s=silence_s)

    def shape(self, source: str, target: str, shape: Shape) -> None:
        """Bytes from ``source`` to ``target`` travel like this from now on."""
        self._tell(source, target, shape=shape._asdict())

    def close(self) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]

    def _tell(self, source: str, target: str, **more: Any) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"from": source, "to": target, **more}) + "\n")
            self._process.stdin.flush()
            response = self._process.stdout.readline().strip()
        except OSError:
            response = ""
        if response != "ok":
            raise RelayError(f"The relay failed: {response or 'its process has ended'}.")
