"""Responses of a connection on their way to its socket.

Bytes go to the socket at once; what the socket does not accept is left to the event loop's transport, which
reports when it has drained. Regions of segment files are read from the page cache into one buffer that all
connections share, and are sent with the bytes around them in one call: ``sendfile`` saves the copy, but feeds
the socket page by page and wakes the reader every time, which costs more. A slow reader costs one piece of
memory. A region that is not in the page cache is loaded by a thread first.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import cast

from tidelog.log.storage import Region
from tidelog.protocol.fetch import Part
from tidelog.runtime import files
from tidelog.runtime.peers.sockets import keep_alive
from tidelog.services import Services

PIECE_BYTES = (
    1024 * 1024
)  # of a region, read and sent at a time; in smaller pieces waking the reader costs more
MAX_PARTS_PER_CALL = 64
QUIET_FROM_BYTES = 128 * 1024

_MORE = getattr(socket, "MSG_MORE", 0)

_piece = memoryview(bytearray(PIECE_BYTES))  # what is being sent right now, by any connection


class Sender:
    __slots__ = (
        "_broken",
        "_drained",
        "_loading",
        "_out",
        "_patient",
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
        self._drained = drained  # called when everything pending has been sent
        self._broken = broken
        self._out: deque[Part | bytes] = deque()
        self._unsent = False  # the transport holds bytes the socket did not accept
        self._loading = False  # a thread is loading a region into memory
        self._patient = False  # it has done so: if the memory was reclaimed, wait for the disk this time
        # Any data in the transport means: full. Then resume_writing reports when the socket is free again.
        transport.set_write_buffer_limits(high=0)
        # A second handle on the same descriptor, for sendmsg; it never closes the descriptor.
        descriptor = transport.get_extra_info("socket").fileno()
        self._socket: socket.socket | None = socket.socket(fileno=descriptor)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def keep_alive(self) -> None:
        """Notice when the machine at the other end is gone silently."""
        if self._socket is not None:
            keep_alive(self._socket)

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
        """Whether responses would only pile up."""
        return self._unsent or self._loading

    def send(self, parts: Iterable[Part | bytes]) -> None:
        self._out.extend(parts)
        self._pump()

    def _pump(self) -> None:
        """Hand as much as possible to the socket, in as few calls as possible."""
        while self._out and not self._unsent and not self._loading and self._socket is not None:
            buffers = self._gather()
            if buffers:
                self._send_now(buffers)

    def _gather(self) -> list[bytes | bytearray | memoryview]:
        """The next buffers, with what fits of the regions between them. A call that ended before the last
        small part of a response would leave that part waiting for the reader's acknowledgement.
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
        """Bytes of a region; 0 if it must wait for the disk, or the disk failed."""
        try:
            count = files.read_into(target, region, wait=self._patient)
            if count == 0:
                raise OSError("the segment ended before the region")
        except OSError as error:
            self._broken(str(error))
            self.close()
            return 0
        self._patient = False
        if count is None:
            self._load(region)
            return 0
        return count

    def _send_now(self, buffers: list[bytes | bytearray | memoryview]) -> None:
        if self._socket is None:
            return
        total = sum(map(len, buffers))
        # The reader is woken when a large response is complete; waking it for every few pages costs as much
        # again as sending them. Setting TCP_NODELAY again releases what the kernel holds back because of
        # that.
        flags = _MORE if total >= QUIET_FROM_BYTES else 0
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
            # Joined, and so copied: another connection uses the shared buffer with the next call.
            self._leave_to_transport(memoryview(b"".join(buffers))[sent:])

    def _load(self, region: Region) -> None:
        """The bytes are not in memory: a thread waits for the disk, other connections continue."""
        self._loading = True
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
        # The socket may have room again by now: then the transport is empty and will not report.
        self._unsent = self._transport.get_write_buffer_size() > 0

    def transport_full(self) -> None:
        self._unsent = True

    def transport_drained(self) -> None:
        self._unsent = False
        self._pump()
        if not self.blocked:
            self._drained()
