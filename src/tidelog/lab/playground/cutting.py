"""The lines between the brokers of a directory, as faults see them: the relay of `tidelog up --demo` cuts.

Owns one connection to the relay. All cuts end with it, here and there: if the relay is started again, or this
process is killed, nothing stays cut.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Iterable
from pathlib import Path

from tidelog.lab.faults.errors import FaultError
from tidelog.lab.network.shape import Shape
from tidelog.lab.network.wiring import Direction, LineFault, Wiring
from tidelog.lab.playground import links


class LinkWiring(Wiring):
    kind = "relay"

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._directory = directory
        self._connection: socket.socket | None = None
        self._lock = threading.RLock()  # snapshots look while a command acts

    def add(self, shape: Shape, directions: Iterable[Direction]) -> LineFault:
        with self._lock:
            self.is_whole()
            return super().add(shape, directions)

    def remove(self, fault: LineFault) -> None:
        with self._lock:
            if self.is_whole():
                with contextlib.suppress(FaultError):  # Then the connection has ended, and the cut with it.
                    super().remove(fault)

    def is_whole(self) -> bool:
        """Whether what was cut still is. Otherwise all of it is forgotten."""
        with self._lock:
            if self._connection is None:
                return False
            try:
                self._connection.setblocking(False)
                is_there = bool(self._connection.recv(1, socket.MSG_PEEK))
            except BlockingIOError:
                is_there = True
            except OSError:
                is_there = False
            self._connection.settimeout(links.RESPONSE_S)
            if not is_there:
                self.close()
            return is_there

    def close(self) -> None:
        with self._lock:
            self._faults.clear()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _apply(self, direction: Direction, shape: Shape) -> None:
        command = {"from": str(direction.source), "to": str(direction.target), "shape": shape._asdict()}
        try:
            if self._connection is None:
                self._connection = links.connect(self._directory)
            self._connection.sendall(json.dumps(command).encode() + b"\n")
            response = self._connection.recv(links.RESPONSE_BYTES_MAX).decode().strip()
        except OSError as error:
            response = error.strerror or str(error)
        if response != "ok":
            self.close()  # Half a cut is none: the relay heals what came over this connection.
            raise FaultError(f"The relay between the brokers does not answer ({response or 'it has ended'}).")
