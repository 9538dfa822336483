"""Accepts the connections of one listener, a few per turn of the event loop.

A storm of connections must not hold the loop: the heartbeats of this broker would be late. So only some are
taken before other events, the others wait in the kernel's queue, and one that is refused is closed before
anything is made for it. Where the process or the system has no descriptors left, accepting pauses: waiting
connections would keep the loop busy.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable

from tidelog.runtime.addresses import ip_of
from tidelog.runtime.connection_limits import ConnectionLimits, ConnectionPlace

logger = logging.getLogger(__name__)

PER_TURN = 16  # about 2 ms
PAUSE_S = 0.5
DELAYED_MAX = 256  # connections that wait to be closed
DELAY_S_MAX = 1.0
SECOND_LOOK_S = 0.02
SECOND_LOOKS_MAX = 64  # connections that wait for one
_ENDED_ALREADY = (errno.ECONNABORTED, errno.EPROTO, errno.EINTR)
# Linux: close a connection whose other end has taken no bytes for this time.
_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)

MakeProtocol = Callable[[ConnectionPlace], asyncio.BaseProtocol]


class Acceptor:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        limits: ConnectionLimits,
        make_protocol: MakeProtocol,
        unread_ms_max: int = 0,
        delay_ms_of: Callable[[str], int] = lambda ip: 0,
        *,
        for_nodes: bool = False,
    ) -> None:
        """``unread_ms_max``: how long a client may leave responses unread; 0: for ever. ``delay_ms_of``: how
        long an address has to wait before it may open another connection. ``for_nodes``: the listener is for
        other nodes only.
        """
        self._delay_ms_of = delay_ms_of
        self._for_nodes = for_nodes
        self._delayed = 0
        self._loop = loop
        self._listening = listening
        self._limits = limits
        self._make_protocol = make_protocol
        self._unread_ms_max = unread_ms_max
        self._starting: set[asyncio.Task[None]] = set()
        self._pausing: asyncio.TimerHandle | None = None
        self._second_looks = 0
        self._closed = False

    def start(self, backlog: int) -> None:
        self._listening.setblocking(False)
        self._listening.listen(backlog)
        self._loop.add_reader(self._listening.fileno(), self._accept_some)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._pausing is not None:
            self._pausing.cancel()
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()

    def _accept_some(self) -> None:
        for _ in range(PER_TURN):
            try:
                accepted, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _ENDED_ALREADY:
                    continue
                self._pause(error)
                return
            self._admit_soon(accepted, ip_of(address))

    def _pause(self, error: OSError) -> None:
        logger.error("no connections are accepted for %s s: %s", PAUSE_S, error.strerror)
        self._loop.remove_reader(self._listening.fileno())
        self._pausing = self._loop.call_later(PAUSE_S, self._continue)

    def _continue(self) -> None:
        self._pausing = None
        if not self._closed:
            self._loop.add_reader(self._listening.fileno(), self._accept_some)

    def _admit_soon(self, accepted: socket.socket, ip: str) -> None:
        """A client may have closed another connection just before: the loop will notice it in a moment."""
        delay_ms = self._delay_ms_of(ip)
        if delay_ms:
            self._turn_away(accepted, ip, delay_ms)
            return
        if self._for_nodes or self._limits.has_room(ip) or self._second_looks >= SECOND_LOOKS_MAX:
            self._admit(accepted, ip)
            return
        self._second_looks += 1
        self._loop.call_later(SECOND_LOOK_S, self._look_again, accepted, ip)

    def _turn_away(self, accepted: socket.socket, ip: str, delay_ms: int) -> None:
        """Close it after a while, as Kafka does: a client that is refused at once tries again at once."""
        logger.info("a connection of %s is refused: connection_creation_rate is reached", ip)
        if self._delayed >= DELAYED_MAX:
            accepted.close()
            return
        self._delayed += 1
        self._loop.call_later(min(delay_ms / 1000, DELAY_S_MAX), self._close_delayed, accepted)

    def _close_delayed(self, accepted: socket.socket) -> None:
        self._delayed -= 1
        accepted.close()

    def _look_again(self, accepted: socket.socket, ip: str) -> None:
        self._second_looks -= 1
        if self._closed:
            accepted.close()
        else:
            self._admit(accepted, ip)

    def _admit(self, accepted: socket.socket, ip: str) -> None:
        place = self._limits.admit(ip, self._loop.time(), for_nodes=self._for_nodes)
        if isinstance(place, str):
            logger.warning("refused a connection of %s: %s", ip, place)
            accepted.close()
            return
        accepted.setblocking(False)
        if _USER_TIMEOUT is not None and self._unread_ms_max > 0:
            accepted.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, min(self._unread_ms_max, (1 << 31) - 1))
        task = self._loop.create_task(self._serve(accepted, place))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _serve(self, accepted: socket.socket, place: ConnectionPlace) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: self._make_protocol(place), accepted)
        except OSError as error:
            logger.info("a connection of %s ended at once: %s", place.ip, error)
            self._limits.release(place)
            accepted.close()
