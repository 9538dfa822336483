"""Sends the responses of a connection.

Bytes are written to the socket immediately. The rest that the socket does not accept is passed to the event
loop's transport, which reports when it has drained. Regions of segment files are read from the page cache
into one buffer that all connections share, and sent with the bytes around them in one call. ``sendfile``
would save the copy, but it writes page by page and wakes the receiver every time, which costs more. A slow
receiver uses at most one piece of memory. A region that is not in the page cache is first loaded by a thread.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from tidelog.invariant import invariant
from tidelog.log.storage import Region
from tidelog.protocol.fetch import Part
from tidelog.runtime import files
from tidelog.runtime.peers.sockets import keep_alive
from tidelog.runtime.traffic import Reads
from tidelog.services import Services

PIECE_BYTES = (
    1024 * 1024
)  # of a region, read and sent in one call; with smaller pieces the receiver is woken more often
MAX_PARTS_PER_CALL = 64
QUIET_FROM_BYTES = 128 * 1024

MORE = getattr(socket, "MSG_MORE", 0)

_piece = memoryview(bytearray(PIECE_BYTES))  # for the call in progress, of any connection


class Sender:
    __slots__ = (
        "_broken",
        "_drained",
        "_loading",
        "_out",
        "_patient",
        "_reads",
        "_services",
        "_socket",
        "_transport",
        "_unsent",
    )

    encrypts = False  # whether it may be given a transport with TLS

    def __init__(
        self,
        transport: asyncio.Transport,
        services: Services,
        drained: Callable[[], None],
        broken: Callable[[str], None],
        reads: Reads,
    ) -> None:
        invariant(
            self.encrypts or not isinstance(transport.get_extra_info("sslcontext"), ssl.SSLContext),
            "nothing is written beside the encryption of a transport",
        )
        self._transport = transport
        self._services = services
        self._drained = drained  # called when everything pending has been sent
        self._broken = broken
        self._reads = reads
        self._out: deque[Part | bytes] = deque()
        self._unsent = False  # the transport has bytes that the socket did not accept
        self._loading = False  # a thread is loading a region into memory
        self._patient = False  # the region was loaded: if it was evicted since, wait for the disk now
        # Any data in the transport counts as full, so that resume_writing reports when all of it is sent.
        transport.set_write_buffer_limits(high=0)
        # A second handle on the same descriptor, for sendmsg; it never closes the descriptor.
        descriptor = transport.get_extra_info("socket").fileno()
        self._socket: socket.socket | None = socket.socket(fileno=descriptor)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def keep_alive(self) -> None:
        """Detect when the machine at the other end has failed without closing the connection."""
        if self._socket is not None:
            keep_alive(self._socket)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.detach()
            self._socket = None
        self._out.clear()

    @property
    def idle(self) -> bool:
        """Whether everything was passed to the socket."""
        return not self._out and not self._unsent and not self._loading

    @property
    def blocked(self) -> bool:
        """Whether further responses would have to wait."""
        return self._unsent or self._loading

    def send(self, parts: Iterable[Part | bytes]) -> None:
        self._out.extend(parts)
        self._pump()

    def _pump(self) -> None:
        """Write as much as possible to the socket, in as few calls as possible."""
        while self._out and not self._unsent and not self._loading and self._socket is not None:
            buffers = self._gather()
            if buffers:
                self._send_now(buffers)

    def _gather(self) -> list[bytes | bytearray | memoryview]:
        """The next buffers, including the regions between them as far as they fit. If a call ended before the
        last small part of a response, that part would wait for the receiver's acknowledgement.
        """
        out = self._out
        buffers: list[bytes | bytearray | memoryview] = []
        used = 0  # of the shared buffer
        while out and len(buffers) < MAX_PARTS_PER_CALL:
            part = out.popleft()
            if not isinstance(part, Region):
                buffers.append(cast(bytearray, part))
                continue
            if used == PIECE_BYTES:
                out.appendleft(part)
                break
            count = self._read(part, _piece[used : used + part.size])
            if count == 0:
                break
            buffers.append(_piece[used : used + count])
            used += count
            if count < part.size:
                out.appendleft(Region(part.file, part.position + count, part.size - count))
        return buffers

    def _read(self, region: Region, target: memoryview) -> int:
        """Read bytes of a region; returns 0 if they must be loaded from disk, or if the disk failed."""
        try:
            count = files.read_into(target, region, wait=self._patient)
            if count == 0:
                raise OSError("the segment ended before the region")
        except OSError as error:
            self._broken(str(error))
            self.close()
            return 0
        was_loaded, self._patient = self._patient, False
        if count is None:
            self._load(region)
            return 0
        if not was_loaded:
            self._reads.cached_bytes += count
        return count

    def _send_now(self, buffers: list[bytes | bytearray | memoryview]) -> None:
        if self._socket is None:
            return
        total = sum(map(len, buffers))
        # With MSG_MORE the receiver is woken only when a large response is complete. Waking it for every few
        # pages would double the cost of sending. Setting TCP_NODELAY again flushes what the kernel has held
        # back.
        flags = MORE if total >= QUIET_FROM_BYTES else 0
        try:
            sent = self._socket.sendmsg(buffers, (), flags)
            if flags:
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._broken(str(error))
            self.close()
            return
        if sent < total:
            # The join copies the data, because the next call of any connection overwrites the shared buffer.
            self._leave_to_transport(memoryview(b"".join(buffers))[sent:])

    def _load(self, region: Region) -> None:
        """The bytes are not in memory: load them in a thread, so that other connections can continue."""
        self._loading = True
        self._reads.waited += 1
        self._out.appendleft(region)

        def loaded(result: object) -> None:
            self._loading = False
            if self._socket is None:
                return
            if isinstance(result, BaseException):
                self._broken(str(result))
                self.close()
                return
            self._patient = True
            self._pump()
            if not self.blocked:
                self._drained()

        self._services.offload(lambda: files.load(region), loaded)

    def _leave_to_transport(self, data: bytes | memoryview) -> None:
        self._transport.write(data)
        # If the socket accepted the rest, the transport is empty and will not report.
        self._unsent = self._transport.get_write_buffer_size() > 0

    def transport_full(self) -> None:
        self._unsent = True

    def transport_drained(self) -> None:
        self._unsent = False
        self._pump()
        if not self.blocked:
            self._drained()
