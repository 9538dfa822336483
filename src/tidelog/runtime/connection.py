"""One client connection: bytes in, requests to the handlers, answers out in the order of the requests.

**In.** Small requests are cut out of one scratch buffer; a request that does not fit is received straight
into a buffer of its own size, so that a large batch is never copied on its way to the log.

**Out.** Work does not wait for earlier work of the same connection, only answers keep their order: each
request takes a slot in a queue, and the queue is sent as far as its head is finished. Bytes go to the socket
at once; what the socket does not take is left with the event loop's transport until it drains. Regions of
segment files go by ``sendfile``, and when the socket is full in pieces, so that a slow reader costs a fixed
amount of memory.

**Back-pressure.** No further request is taken up while answers pile up (unsent bytes, or more unanswered
requests than allowed) or while the broker as a whole holds too many request bytes; the kernel's buffers then
fill, and the client waits.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Protocol, cast

from tidelog.broker.handlers import api_versions
from tidelog.broker.promise import Promise
from tidelog.broker.registry import SERVED
from tidelog.broker.request import HangUp, RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.storage import Region
from tidelog.protocol import fetch, messages, produce
from tidelog.protocol.fetch import Part
from tidelog.protocol.wire import STRUCT_ERROR, Malformed, skip_tags
from tidelog.runtime import files

if TYPE_CHECKING:
    from tidelog.runtime.server import Server

logger = logging.getLogger(__name__)

SCRATCH_BYTES = 64 * 1024
OWN_BUFFER_FROM_BYTES = 16 * 1024  # a smaller request waits in scratch for its rest
PLAIN_BYTES_MAX = 8 * 1024 * 1024  # of a request other than Produce
PIECE_BYTES = 256 * 1024  # of a region, once the socket is full
COPY_BELOW_BYTES = 32 * 1024  # a smaller region is read and sent with its surroundings in one call
MAX_PARTS_PER_CALL = 64

_SIZE = Struct(">i")
_API_KEY = Struct(">h")
_HEADER = Struct(">hhih")  # api key, version, correlation id, length of the client id

SendMore = getattr(socket, "MSG_MORE", 0)


class Waiting(Protocol):
    """A parked request."""

    def cancel(self) -> None: ...

    def finish_now(self) -> None: ...


class Slot:
    """A request's place in the order of answers."""

    __slots__ = ("parts", "waiting")

    def __init__(self) -> None:
        self.parts: Sequence[Part | bytes] | None = None  # None until finished
        self.waiting: Waiting | None = None


class Connection(asyncio.BufferedProtocol):
    __slots__ = (
        "_busy",
        "_closed",
        "_descriptor",
        "_end",
        "_filled",
        "_frame",
        "_frame_view",
        "_loading",
        "_out",
        "_reserved",
        "_scratch",
        "_server",
        "_socket",
        "_start",
        "_stopped_reading",
        "_transport",
        "_unsent",
        "_view",
        "ip",
        "last_active",
        "peer",
        "slots",
    )

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._scratch = bytearray(SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        self._start = 0  # of the bytes in scratch that no request has taken yet
        self._end = 0
        self._frame: bytearray | None = None  # a large request that is being received
        self._frame_view: memoryview | None = None
        self._filled = 0
        self._reserved = 0  # bytes this connection holds of the broker's request memory
        self.slots: deque[Slot] = deque()
        self._out: deque[Part | bytes] = deque()
        self._unsent = False  # the transport holds bytes the socket did not take
        self._loading = False  # a thread is bringing a region into the page cache
        self._stopped_reading = False
        self._busy = (
            False  # requests are being taken up; what they finish at once is sent together afterwards
        )
        self._closed = False
        self.peer = "?"
        self.ip = "?"
        self.last_active = 0.0
        self._transport: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._descriptor = -1

    # --- life -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        address = transport.get_extra_info("peername")
        self.ip = str(address[0]) if address else "?"
        self.peer = f"{address[0]}:{address[1]}" if address else "?"
        # Anything the transport holds means: full. Then resume_writing tells when the socket is free again.
        self._transport.set_write_buffer_limits(high=0)
        # A second handle on the same descriptor, for sendmsg and sendfile; it never closes the descriptor.
        self._descriptor = transport.get_extra_info("socket").fileno()
        self._socket = socket.socket(fileno=self._descriptor)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.last_active = self._server.loop.time()
        refusal = self._server.admit(self)
        if refusal:
            self.close(refusal)

    def connection_lost(self, error: Exception | None) -> None:
        if self._socket is not None:
            self._socket.detach()
        self._transport = None
        self._socket = None
        self._release_memory()
        self._frame = self._frame_view = None
        for slot in self.slots:
            if slot.waiting is not None:
                slot.waiting.cancel()
        self.slots.clear()
        self._out.clear()
        self._server.forget(self)

    def close(self, reason: str, *, quiet: bool = False) -> None:
        """One log line, then nothing more from or to this client."""
        if self._transport is not None and not self._closed:
            self._closed = True
            logger.log(
                logging.INFO if quiet else logging.WARNING, "closed connection of %s: %s", self.peer, reason
            )
            self._transport.abort()

    def finish_waiting(self) -> None:
        """Answer parked fetches now: the broker is about to stop."""
        for slot in list(self.slots):
            if slot.waiting is not None:
                slot.waiting.finish_now()

    def end(self) -> None:
        """Close after what the transport still holds is sent."""
        if self._transport is not None:
            self._transport.close()

    @property
    def idle(self) -> bool:
        """Nothing is owed to the client."""
        return not (self.slots or self._out or self._unsent)

    # --- bytes in -------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame_view is not None:
            return self._frame_view[self._filled :]
        if self._end == SCRATCH_BYTES:
            self._make_room()
        return self._view[self._end :]

    def buffer_updated(self, count: int) -> None:
        self.last_active = self._server.loop.time()
        if self._frame is None or self._frame_view is None:
            self._end += count
        else:
            self._filled += count
            if self._filled < len(self._frame):
                return
            request, self._frame, self._frame_view = self._frame_view, None, None
            self._busy = True
            self._dispatch(request)
            self._release_memory()
        self._take_requests()

    def eof_received(self) -> bool:
        # A half-closed connection still gets its answers; without any owed it is closed.
        return bool(self.slots or self._out)

    def _take_requests(self) -> None:
        """Take up every whole request in scratch, as long as nothing says stop; then send what is
        finished.
        """
        view = self._view
        self._busy = True
        while self._end - self._start >= 4 and not self._closed and not self._must_pause():
            (size,) = _SIZE.unpack_from(view, self._start)
            if size <= 8 or size > self._server.max_request_bytes:
                self.close(f"a request of {size} bytes; allowed are 9 to {self._server.max_request_bytes}")
                break
            end = self._start + 4 + size
            if end > self._end:
                if size >= OWN_BUFFER_FROM_BYTES and self._end - self._start >= 6:
                    self._begin_frame(size)
                break
            # Copied out: the next read overwrites scratch while this batch may still be on its way.
            request = memoryview(bytearray(view[self._start + 4 : end]))
            self._start = end
            self._dispatch(request)
        if self._start == self._end:
            self._start = self._end = 0
        self._busy = False
        self._flush_answers()

    def _begin_frame(self, size: int) -> None:
        """Receive the rest of a request straight into a buffer of its size; wait while memory is short."""
        (api_key,) = _API_KEY.unpack_from(self._view, self._start + 4)
        if size > PLAIN_BYTES_MAX and api_key != produce.API_KEY:
            # Only records are that large. Parsing so many small fields would hold up everybody else.
            self.close(
                f"a {messages.name_of(api_key)} request of {size} bytes; allowed are {PLAIN_BYTES_MAX}"
            )
            return
        if not self._server.reserve_memory(size, self):
            self._stop_reading()
            return
        self._reserved = size
        frame = bytearray(size)
        have = self._end - self._start - 4
        frame[:have] = self._view[self._start + 4 : self._end]
        self._frame = frame
        self._frame_view = memoryview(frame)
        self._filled = have
        self._start = self._end = 0

    def _make_room(self) -> None:
        """Move an incomplete request to the front of scratch."""
        rest = self._end - self._start
        self._scratch[:rest] = self._scratch[self._start : self._end]
        self._start, self._end = 0, rest

    def _release_memory(self) -> None:
        if self._reserved:
            self._server.release_memory(self._reserved)
            self._reserved = 0

    def _must_pause(self) -> bool:
        if self._frame is not None:
            return True
        if self._unsent or self._loading or len(self.slots) >= self._server.max_unanswered:
            self._stop_reading()
            return True
        return False

    def _stop_reading(self) -> None:
        if not self._stopped_reading and self._transport is not None:
            self._stopped_reading = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Whatever held us back may be gone."""
        if not self._stopped_reading or self._transport is None:
            return
        if self._unsent or self._loading or len(self.slots) >= self._server.max_unanswered:
            return
        self._stopped_reading = False
        self._take_requests()
        if not self._stopped_reading and self._transport is not None:
            self._transport.resume_reading()

    # --- requests -------------------------------------------------------------------------------------------

    def _dispatch(self, request: memoryview) -> None:
        try:
            self._handle(request)
        except (Malformed, HangUp) as error:
            self.close(error.message)
        except (STRUCT_ERROR, IndexError):
            self.close("a request header that ends too early")
        except Exception:
            logger.exception("a request of %s failed", self.peer)
            self.close("a request that could not be answered")

    def _handle(self, request: memoryview) -> None:
        api_key, version, correlation_id, client_size = _HEADER.unpack_from(request, 0)
        position = 10
        api = SERVED.get(api_key)
        if api is None or not api.oldest <= version <= api.newest:
            self._refuse(api_key, version, correlation_id)
            return
        client_id = None
        if client_size >= 0:
            client_id = str(request[10 : 10 + client_size], "utf-8", "replace")
            position += client_size
        if messages.is_flexible(api_key, version):
            position = skip_tags(request, position)
        slot = Slot()
        self.slots.append(slot)
        context = RequestContext(api_key, version, correlation_id, client_id, self.peer)
        server = self._server
        server.requests += 1
        if api_key == produce.API_KEY:
            server.produce.handle(request, position, context, lambda answer: self._finish(slot, answer))
        elif api_key == fetch.API_KEY:
            waiting = server.fetch.handle(
                request, position, context, lambda parts: self._finish_parts(slot, parts)
            )
            slot.waiting = waiting if slot.parts is None else None
        else:
            self._handle_plain(request, position, context, slot)

    def _handle_plain(self, request: memoryview, position: int, context: RequestContext, slot: Slot) -> None:
        """Every API but the two hot ones."""
        api_key, version = context.api_key, context.version
        decoded = messages.decode(api_key, version, request, position)

        def answer(fields: messages.Fields) -> None:
            # Also called by whoever keeps a promise: a defect here must not reach them, and the slot must be
            # answered, or nothing behind it ever would be.
            try:
                frame = messages.encode(api_key, version, context.correlation_id, fields)
            except Exception:
                logger.exception("the answer to %s v%s cannot be encoded", messages.name_of(api_key), version)
                self._fail(slot, context, ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                self._finish(slot, frame)

        handler = SERVED[api_key].handler
        try:
            outcome = handler(self._server.broker, decoded, context)  # type: ignore[misc]
        except TidelogError as refusal:
            name = messages.name_of(api_key)
            logger.error("%s v%s of %s failed: %s", name, version, self.peer, refusal.message)
            self._fail(slot, context, refusal.code)
        except Exception:
            logger.exception("%s v%s of %s failed", messages.name_of(api_key), version, self.peer)
            self._fail(slot, context, ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            if isinstance(outcome, Promise):
                outcome.then(answer)
            else:
                answer(outcome)

    def _fail(self, slot: Slot, context: RequestContext, code: ErrorCode) -> None:
        """A defect of ours must not cost the client more than this request."""
        try:
            self._finish(
                slot,
                messages.encode(
                    context.api_key, context.version, context.correlation_id, {"error_code": code}
                ),
            )
        except Exception:
            self.close("a request that could not be answered")

    def _refuse(self, api_key: int, version: int, correlation_id: int) -> None:
        if api_key == messages.API_VERSIONS_KEY:
            slot = Slot()
            self.slots.append(slot)
            self._finish(slot, api_versions.downgrade(correlation_id))
            return
        # Kafka, too, closes: the layout of an answer in an unknown version is unknown.
        self.close(f"UNSUPPORTED_VERSION: {messages.name_of(api_key)} (api key {api_key}) version {version}")

    # --- answers out ----------------------------------------------------------------------------------------

    def _finish(self, slot: Slot, answer: bytes | bytearray | None) -> None:
        self._finish_parts(slot, [] if answer is None else [answer])

    def _finish_parts(self, slot: Slot, parts: Sequence[Part | bytes]) -> None:
        slot.parts = parts
        slot.waiting = None
        if not self._busy and self.slots and self.slots[0] is slot:
            self._flush_answers()

    def _flush_answers(self) -> None:
        slots = self.slots
        out = self._out
        while slots:
            parts = slots[0].parts
            if parts is None:
                break
            slots.popleft()
            out.extend(parts)
        if out and not self._unsent and not self._loading:
            self._send()
        if self._stopped_reading:
            self.go_on()

    def _send(self) -> None:
        """Hand as much as possible to the socket."""
        out = self._out
        while out and not self._unsent and not self._loading and self._transport is not None:
            part = out[0]
            if isinstance(part, Region):
                out.popleft()
                self._send_region(part)
            else:
                self._send_buffers()

    def _send_buffers(self) -> None:
        out = self._out
        buffers: list[bytes | bytearray] = []
        while out and len(buffers) < MAX_PARTS_PER_CALL:
            part = out[0]
            if isinstance(part, Region):
                if part.size > COPY_BELOW_BYTES:
                    break
                data = files.read_cached(part)
                if data is None:
                    break
                buffers.append(data)
            else:
                buffers.append(cast(bytearray, part))
            out.popleft()
        if not buffers:
            return
        total = sum(map(len, buffers))
        try:
            sent = self._socket.sendmsg(buffers, (), SendMore if out else 0)  # type: ignore[union-attr]
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._broken(str(error))
            return
        if sent < total:
            rest = b"".join(buffers)
            self._leave_to_transport(memoryview(rest)[sent:])

    def _send_region(self, region: Region, *, loaded: bool = False) -> None:
        if not loaded and not files.is_cached(region):
            self._load(region)
            return
        position, rest = region.position, region.size
        try:
            while rest:
                sent = files.send(self._descriptor, region.file, position, rest)
                if sent == 0:
                    self._broken("the segment ended before the region")
                    return
                position += sent
                rest -= sent
        except BlockingIOError:
            self._send_piece(Region(region.file, position, rest))
        except OSError as error:
            self._broken(str(error))

    def _send_piece(self, region: Region) -> None:
        """The socket is full: leave some bytes to the transport, so that it tells when there is room
        again.
        """
        piece = min(region.size, PIECE_BYTES)
        if region.size > piece:
            self._out.appendleft(Region(region.file, region.position + piece, region.size - piece))
        try:
            data = region.file.read_at(region.position, piece)
        except OSError as error:
            self._broken(str(error))
            return
        if len(data) < piece:
            self._broken("the segment ended before the region")
        else:
            self._leave_to_transport(data)

    def _load(self, region: Region) -> None:
        """The bytes are not in memory: let a thread wait for the disk, everybody else goes on."""
        self._loading = True

        def loaded(result: object) -> None:
            self._loading = False
            if self._transport is None:
                return
            if isinstance(result, BaseException):
                self._broken(str(result))
                return
            self._send_region(region, loaded=True)
            self._send()
            self.go_on()

        self._server.broker.services.offload(lambda: files.load(region), loaded)

    def _leave_to_transport(self, data: bytes | memoryview) -> None:
        if self._transport is not None:
            self._transport.write(data)
            # The socket may have room again by now: then the transport has nothing left, and will tell
            # nothing.
            self._unsent = self._transport.get_write_buffer_size() > 0

    def pause_writing(self) -> None:
        self._unsent = True

    def resume_writing(self) -> None:
        self._unsent = False
        self._send()
        if not self._unsent:
            self._flush_answers()
            self.go_on()

    def _broken(self, reason: str) -> None:
        if self._transport is not None and not self._closed:
            self._closed = True
            logger.info("connection of %s broke while sending: %s", self.peer, reason)
            self._transport.abort()
