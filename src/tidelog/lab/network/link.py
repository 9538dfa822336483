"""One way from a party to a broker: a listening socket of the relay, and the connections through it.

A caller must see the same as without a relay. If no process listens at the broker's address, then none
listens here: brokers tell by this that another one has died. If a direction is cut, a new connection hangs:
the queue of the listening socket is shortened and filled, so that the kernel drops further attempts, as a cut
line does.
"""

import contextlib
import errno
import socket
from collections.abc import Callable
from typing import NamedTuple

from tidelog.lab.network.connection import Connection, Route, is_accepted
from tidelog.lab.network.loop import READ, RelayLoop
from tidelog.lab.network.shape import Shape

BACKLOG = 512
FILLERS = 3  # more than fit into the shortest queue
POLL_S = 0.01  # whether a broker listens again
# A process that ends closes its listening socket some time after its first connection.
CHECKS_S = (0.0, 0.002, 0.005, 0.01, 0.02, 0.03)


class LinkSpec(NamedTuple):
    port: int  # of the relay
    address: tuple[str, int]  # of the broker
    silence_s: float | None


class Link:
    def __init__(
        self,
        loop: RelayLoop,
        spec: LinkSpec,
        there: Callable[[], Shape],
        back: Callable[[], Shape],
        down: Callable[[], None],
        doubt: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._port = spec.port
        self._there, self._back = there, back
        self._is_up = False
        self._socket: socket.socket | None = None
        self._is_accepting = False  # otherwise silent, if there is a socket
        self._fillers: list[socket.socket] = []
        self._connections: set[Connection] = set()
        self._route = Route(
            loop, spec.address, there, back, spec.silence_s, down, doubt, self._connections.discard
        )

    def reshape(self) -> None:
        for connection in list(self._connections):
            connection.reshape()
        self._update()

    def target_is(self, *, up: bool) -> None:
        self._is_up = up
        self._update()

    def close(self) -> None:
        for connection in list(self._connections):
            connection.close(reset=True)
        self._unlisten()

    def _update(self) -> None:
        if self._there().cut or self._back().cut:
            self._be_silent()
        elif self._is_up:
            self._listen()
        else:
            self._unlisten()

    def _listen(self) -> None:
        if not self._is_accepting:
            self._bound().listen(BACKLOG)
            self._accepting(True)

    def _be_silent(self) -> None:
        if self._socket is not None and not self._is_accepting:
            return
        self._accepting(False)
        self._bound().listen(0)
        for _ in range(FILLERS):
            filler = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self._port))
            self._fillers.append(filler)

    def _unlisten(self) -> None:
        self._accepting(False)
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._drop_fillers()

    def _accepting(self, wanted: bool) -> None:
        if self._is_accepting != wanted:
            self._is_accepting = wanted
            self._loop.watch(self._bound(), READ if wanted else 0, 0 if wanted else READ, self._accept)

    def _bound(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.setblocking(False)
            self._socket.bind(("127.0.0.1", self._port))
        return self._socket

    def _accept(self, mask: int) -> None:
        fillers = {filler.getsockname() for filler in self._fillers}
        while self._socket is not None:
            try:
                accepted, caller = self._socket.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS):
                    raise
                continue  # The caller has given up already.
            if caller in fillers:
                accepted.close()
            else:
                self._connections.add(Connection(self._route, accepted))
        self._drop_fillers()

    def _drop_fillers(self) -> None:
        for filler in self._fillers:
            with contextlib.suppress(OSError):
                filler.close()
        self._fillers.clear()


class Target:
    """A broker's address, and whether a process listens there."""

    def __init__(self, loop: RelayLoop, address: tuple[str, int]) -> None:
        self._loop = loop
        self._address = address
        self._is_up = False
        self._checks = 0  # under way
        self.links: list[Link] = []
        self._poll()

    def add(self, link: Link) -> None:
        self.links.append(link)
        link.target_is(up=self._is_up)

    def is_down(self) -> None:
        """A connection was refused."""
        if self._is_up:
            self._tell(False)
            self._loop.at(self._loop.now() + POLL_S, self._poll)

    def is_in_doubt(self) -> None:
        """It has closed a connection: it may be ending."""
        if self._is_up and not self._checks:
            self._checks = len(CHECKS_S)
            for pause_s in CHECKS_S:
                self._loop.at(self._loop.now() + pause_s, self._check)

    def _check(self) -> None:
        self._checks -= 1
        if self._is_up and not is_accepted(self._address):
            self.is_down()

    def _poll(self) -> None:
        if is_accepted(self._address):
            self._tell(True)
        else:
            self._loop.at(self._loop.now() + POLL_S, self._poll)

    def _tell(self, up: bool) -> None:
        self._is_up = up
        for link in self.links:
            link.target_is(up=up)
