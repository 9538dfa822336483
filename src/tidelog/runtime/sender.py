"""Answers of a connection on their way to its socket.

Bytes go to the socket at once; what the socket does not take is left with the event loop's transport, which
tells when it has drained. Regions of segment files go by ``sendfile``, and in pieces when the socket is full,
so that a slow reader costs a fixed amount of memory. A region that is not in memory is brought there by a
thread first.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from tidelog.log.storage import Region
from tidelog.protocol.fetch import Part
from tidelog.runtime import files
from tidelog.services import Services

PIECE_BYTES = 256 * 1024  # of a region, once the socket is full
COPY_BELOW_BYTES = 32 * 1024  # a smaller region is read and sent with its surroundings in one call
MAX_PARTS_PER_CALL = 64

_MORE = getattr(socket, "MSG_MORE", 0)


class Sender:
    __slots__ = (
        "_broken",
        "_descriptor",
        "_drained",
        "_loading",
        "_out",
        "_services",
        "_socket",
        "_transport",
        "_unsent",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        services: Services,
        drained: Callable[[], None],
        broken: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._services = services
        self._drained = drained  # called when everything waiting has been sent after all
        self._broken = broken
        self._out: deque[Part | bytes] = deque()
        self._unsent = False  # the transport holds bytes the socket did not take
        self._loading = False  # a thread is bringing a region into memory
        # Anything the transport holds means: full. Then resume_writing tells when the socket is free again.
        transport.set_write_buffer_limits(high=0)
        # A second handle on the same descriptor, for sendmsg and sendfile; it never closes the descriptor.
        self._descriptor = transport.get_extra_info("socket").fileno()
        self._socket: socket.socket | None = socket.socket(fileno=self._descriptor)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.detach()
            self._socket = None
        self._out.clear()

    @property
    def idle(self) -> bool:
        """Everything was handed to the socket."""
        return not self._out and not self._unsent and not self._loading

    @property
    def blocked(self) -> bool:
        """Whether answers would only pile up."""
        return self._unsent or self._loading

    def send(self, parts: Iterable[Part | bytes]) -> None:
        self._out.extend(parts)
        self._pump()

    def _pump(self) -> None:
        """Hand as much as possible to the socket."""
        out = self._out
        while out and not self._unsent and not self._loading and self._socket is not None:
            if isinstance(out[0], Region):
                self._send_region(cast(Region, out.popleft()))
            else:
                self._send_buffers(self._socket)

    def _send_buffers(self, sock: socket.socket) -> None:
        out = self._out
        buffers: list[bytes | bytearray] = []
        while out and len(buffers) < MAX_PARTS_PER_CALL:
            part = out[0]
            if isinstance(part, Region):
                data = files.read_cached(part) if part.size <= COPY_BELOW_BYTES else None
                if data is None:
                    break
                buffers.append(data)
            else:
                buffers.append(cast(bytearray, part))
            out.popleft()
        total = sum(map(len, buffers))
        try:
            sent = sock.sendmsg(buffers, (), _MORE if out else 0)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._broken(str(error))
            self.close()
            return
        if sent < total:
            self._leave_to_transport(memoryview(b"".join(buffers))[sent:])

    def _send_region(self, region: Region, *, loaded: bool = False) -> None:
        if not loaded and not files.is_cached(region):
            self._load(region)
            return
        position, rest = region.position, region.size
        try:
            while rest:
                sent = files.send(self._descriptor, region.file, position, rest)
                if sent == 0:
                    raise OSError("the segment ended before the region")
                position += sent
                rest -= sent
        except BlockingIOError:
            self._send_piece(Region(region.file, position, rest))
        except OSError as error:
            self._broken(str(error))
            self.close()

    def _send_piece(self, region: Region) -> None:
        """The socket is full: leave some bytes to the transport, so that it tells when there is room
        again.
        """
        piece = min(region.size, PIECE_BYTES)
        try:
            data = region.file.read_at(region.position, piece)
            if len(data) < piece:
                raise OSError("the segment ended before the region")
        except OSError as error:
            self._broken(str(error))
            self.close()
            return
        if region.size > piece:
            self._out.appendleft(Region(region.file, region.position + piece, region.size - piece))
        self._leave_to_transport(data)

    def _load(self, region: Region) -> None:
        """The bytes are not in memory: let a thread wait for the disk, everybody else goes on."""
        self._loading = True

        def loaded(result: object) -> None:
            self._loading = False
            if self._socket is None:
                return
            if isinstance(result, BaseException):
                self._broken(str(result))
                self.close()
                return
            self._send_region(region, loaded=True)
            self._pump()
            if not self.blocked:
                self._drained()

        self._services.offload(lambda: files.load(region), loaded)

    def _leave_to_transport(self, data: bytes | memoryview) -> None:
        self._transport.write(data)
        # The socket may have room again by now: then the transport has nothing left, and will tell nothing.
        self._unsent = self._transport.get_write_buffer_size() > 0

    def transport_full(self) -> None:
        self._unsent = True

    def transport_drained(self) -> None:
        self._unsent = False
        self._pump()
        if not self.blocked:
            self._drained()
