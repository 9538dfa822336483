"""TLS between a socket's transport and a protocol that knows nothing of it.

uvloop has such a layer, too. This one differs in three ways. Its handshakes run in a thread
(:mod:`~tidelog.runtime.tls.handshakes`). Encrypted bytes are written to the socket at once, like those of
connections without TLS, and only the rest goes through the transport. And what writes to the socket beside
the transport has to encrypt: otherwise there would be plain text in the middle of the encrypted stream.

While a step of the handshake runs in the thread, the layer reads nothing and touches neither the TLS object
nor its buffers.

Nor may decryption hold the loop: a peer can announce new keys with every 27 bytes, before it has
authenticated. So OpenSSL gets what has arrived in pieces, other connections have their turn in between, and a
peer that sends next to nothing else is closed.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Sequence
from time import monotonic
from typing import Any, Protocol, cast

from tidelog.runtime.tls.handshakes import Handshakes, HandshakeThread

logger = logging.getLogger(__name__)

SCRATCH_BYTES = 256 * 1024
PIECE_BYTES = 24 * 1024  # more than one record
SLICE_S = 0.005  # for decrypting and handling what was read at once
EMPTY_BYTES_MAX = 64 * 1024  # encrypted bytes with next to nothing in them
EMPTY_FROM = 64  # encrypted bytes for each byte inside. Records of one byte have 23 or 30.
CONTEXT = "sslcontext"  # Name of the extra information by which a transport of TLS is known.

# Of encrypted bytes, for the call in progress: what was read is passed on before the next read.
_scratch = memoryview(bytearray(SCRATCH_BYTES))

Buffers = Sequence[bytes | bytearray | memoryview]


Inner = asyncio.BufferedProtocol  # the protocol inside


_GONE = asyncio.BufferedProtocol()  # inside of a layer whose connection has ended


class Hooks(Protocol):
    """What differs between the two sides of a connection."""

    def opened(self, layer: "TlsLayer") -> None:
        """The socket is connected, the handshake begins."""

    def secured(self, layer: "TlsLayer") -> str | None:
        """The handshake is complete. Returns a reason to close the connection, if there is one."""

    def failed(self, layer: "TlsLayer", reason: str, error: BaseException | None) -> None:
        """There will be no complete handshake. The connection is being closed."""


class TlsLayer(asyncio.BufferedProtocol):
    __slots__ = (
        "_closed",
        "_empty",
        "_failed",
        "_handshakes",
        "_hooks",
        "_incoming",
        "_object",
        "_outgoing",
        "_paused",
        "_raw",
        "_reading",
        "_rest",
        "_secured",
        "_socket",
        "_stepping",
        "_thread",
        "_timer",
        "began",
        "inner",
    )

    def __init__(
        self,
        inner: Inner,
        context: ssl.SSLContext,
        hooks: Hooks,
        thread: HandshakeThread,
        handshakes: Handshakes,
        server_hostname: str | None = None,
    ) -> None:
        """``server_hostname``: of the other side, for the side that connects; None: this is the server."""
        self.inner = inner
        self._hooks = hooks
        self._thread = thread
        self._handshakes = handshakes
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_hostname is None, server_hostname
        )
        self._raw: asyncio.Transport | None = None
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stepping = False  # a step runs in the thread
        self._secured = False
        self._paused = False  # by the protocol inside
        self._reading = False  # decrypted bytes are being passed on
        self._rest = b""  # of what was read, for the next turn of the loop
        self._empty = 0  # encrypted bytes that had next to nothing in them
        self._closed = False
        self._failed = False
        self.began = not self.is_server  # The other side has sent something.

    @property
    def is_server(self) -> bool:
        return self._object.server_side

    @property
    def tls(self) -> ssl.SSLObject:
        """For what the other side has shown; not before the handshake is complete."""
        return self._object

    # --- the socket's transport -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        # A second handle on the same descriptor; it never closes the descriptor.
        self._socket = socket.socket(fileno=transport.get_extra_info("socket").fileno())
        self._hooks.opened(self)
        if self._closed:
            return
        if self.is_server:
            self._handshakes.waits(self)
        else:
            self._step()

    def expire_after(self, timeout_s: float, loop: asyncio.AbstractEventLoop) -> None:
        """Limit the time of the handshake."""
        self._timer = loop.call_later(
            timeout_s, self.give_up, f"the handshake was not complete after {timeout_s:g} s"
        )

    def connection_lost(self, error: Exception | None) -> None:
        self._detach()
        self._raw = None
        if not self._secured:
            self._fail("the other side closed the connection", error)
        if self.is_server or self._secured:
            self.inner.connection_lost(error)
        # The protocol inside knows this layer. The collector of such cycles comes rarely, and a storm of
        # connections would fill the memory until then.
        self.inner = _GONE

    def _detach(self) -> None:
        self._closed = True
        if self._socket is not None:
            self._socket.detach()
            self._socket = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return _scratch

    def buffer_updated(self, count: int) -> None:
        self.began = True
        if not self._secured:
            self._incoming.write(_scratch[:count])
            self._step()
        elif count <= PIECE_BYTES:
            self._incoming.write(_scratch[:count])
            self._pass_on()
        else:
            self._take(_scratch[:count])

    def eof_received(self) -> bool:
        if self._secured:
            return bool(self.inner.eof_received())
        self.give_up("the other side ended it")
        return False

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    # --- the handshake --------------------------------------------------------------------------------------

    def _step(self) -> None:
        if self._stepping or self._closed or self._raw is None:
            return
        self._stepping = True
        self._raw.pause_reading()
        self._handshakes.computes(self)
        self._thread.submit(self._compute, self._computed)

    def _compute(self) -> BaseException | None:
        """In the thread. None: the handshake is complete."""
        try:
            self._object.do_handshake()
        except Exception as error:
            return error
        return None

    def _computed(self, result: BaseException | None) -> None:
        self._stepping = False
        if self._closed or self._raw is None:
            self._handshakes.ended(self)
            return
        self._send_own()  # Of a failed handshake, it says why.
        if self.closing:
            return
        if result is None:
            self._complete()
        elif isinstance(result, ssl.SSLWantReadError):
            self._raw.resume_reading()
            self._handshakes.waits(self)
        else:
            self.give_up(reason_of(result), result)

    def _complete(self) -> None:
        self._end_handshake()
        self._secured = True
        refusal = self._hooks.secured(self)
        if refusal is not None:
            self.give_up(refusal)
        elif self._raw is not None and not self._closed:
            if not self._paused:
                self._raw.resume_reading()
            self._pass_on()  # The other side may have sent requests with the end of its handshake.

    def _end_handshake(self) -> None:
        self._handshakes.ended(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def give_up(self, reason: str, error: BaseException | None = None) -> None:
        """Close a connection that is not secured."""
        self._fail(reason, error)
        if self._raw is not None and not self._closed:
            self._detach()
            self._raw.close()  # After what it has to send: the reason.

    def _fail(self, reason: str, error: BaseException | None) -> None:
        self._end_handshake()
        if not self._failed:
            self._failed = True
            self._hooks.failed(self, reason, error)

    # --- bytes in -------------------------------------------------------------------------------------------

    def _take(self, data: memoryview) -> None:
        """Many bytes, in pieces."""
        began = monotonic()
        for at in range(0, len(data), PIECE_BYTES):
            if at and monotonic() - began > SLICE_S:
                self._take_later(bytes(data[at:]))
                return
            self._incoming.write(data[at : at + PIECE_BYTES])
            self._pass_on()
            if self._closed:
                return

    def _take_later(self, rest: bytes) -> None:
        if self._raw is not None:
            self._raw.pause_reading()
            self._rest = rest
            asyncio.get_running_loop().call_soon(self._take_rest)

    def _take_rest(self) -> None:
        rest, self._rest = self._rest, b""
        if self._raw is None or self._closed:
            return
        if not self._paused:
            self._raw.resume_reading()
        self._take(memoryview(rest))

    def _pass_on(self) -> None:
        """Decrypt what has arrived into the buffers of the protocol inside, until it pauses."""
        if self._reading:
            return  # The protocol inside has resumed reading in the middle of this.
        self._reading = True
        try:
            while self._decrypt():
                pass
            if self._empty > EMPTY_BYTES_MAX and not self._closed:
                logger.info("closed a TLS connection: it sent %s bytes with nothing in them", self._empty)
                self.abort()
        except ssl.SSLError as error:
            # As in Kafka, the reason is no warning: any client can send bytes that are not valid.
            logger.info("closed a TLS connection: %s", reason_of(error))
            self._send_own()
            self.abort()
        finally:
            self._reading = False

    def _decrypt(self) -> bool:
        """Fill one buffer. Returns whether there may be more."""
        if self._paused or self._closed:
            return False
        tls, incoming = self._object, self._incoming
        buffer = memoryview(self.inner.get_buffer(-1))
        size, filled, ended = len(buffer), 0, False
        unread = incoming.pending
        # Without the look, the last read would raise an exception, which takes longer.
        while filled < size and (incoming.pending or tls.pending()):
            try:
                count = tls.read(size - filled, buffer[filled:] if filled else buffer)
            except ssl.SSLWantReadError:
                break
            if not count:
                ended = True
                break
            filled += cast(int, count)
        self._empty = max(self._empty + unread - incoming.pending - filled * EMPTY_FROM, 0)
        self._send_own()  # The other side may want new keys.
        if filled:
            self.inner.buffer_updated(filled)
        if ended and not self._closed and not self.inner.eof_received():
            self.close()
        return filled == size and not ended

    def pause_reading(self) -> None:
        self._paused = True
        if self._raw is not None and self._secured:
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._paused = False
        if self._raw is None or self._closed or not self._secured:
            return
        if not self._rest:
            self._raw.resume_reading()
        self._pass_on()

    # --- bytes out ------------------------------------------------------------------------------------------

    def encrypt(self, buffers: Buffers) -> bytes:
        data: bytes | bytearray | memoryview = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        view = memoryview(data)
        write = self._object.write
        while view:
            view = view[write(view) :]
        return self._outgoing.read()

    def transmit(self, data: bytes, flags: int = 0) -> bool:
        """Write encrypted bytes. Returns whether the socket has accepted all of them. Raises ``OSError``."""
        raw, connected = self._raw, self._socket
        if raw is None or connected is None:
            return True
        if raw.get_write_buffer_size():
            raw.write(data)  # Behind those that wait already.
            return False
        try:
            sent = connected.send(data, flags)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            raw.write(memoryview(data)[sent:])
        return not raw.get_write_buffer_size()

    def _send_own(self) -> None:
        """What OpenSSL has to say by itself."""
        if not self._outgoing.pending:
            return
        try:
            self.transmit(self._outgoing.read())
        except OSError:
            self.abort()

    # --- closing --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close after everything is sent."""
        if self._raw is None or self._closed:
            return
        if self._secured:
            with contextlib.suppress(ssl.SSLError):  # The other side need not confirm the end.
                self._object.unwrap()
            self._send_own()
        self._detach()
        if self._raw is not None:
            self._raw.close()

    def abort(self) -> None:
        if self._raw is not None:
            self._detach()
            self._raw.abort()

    def new_transport(self) -> "TlsTransport":
        """For the protocol inside."""
        return TlsTransport(self)

    @property
    def raw(self) -> asyncio.Transport | None:
        return self._raw

    @property
    def closing(self) -> bool:
        return self._closed

    @property
    def context(self) -> ssl.SSLContext:
        return self._object.context


class TlsTransport(asyncio.Transport):
    """What the protocol inside has for a transport. ``write`` is not served: a ``TlsSender`` encrypts."""

    def __init__(self, layer: TlsLayer) -> None:
        super().__init__()
        self.layer = layer

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == CONTEXT:
            return self.layer.context
        raw = self.layer.raw
        return default if raw is None else raw.get_extra_info(name, default)

    def pause_reading(self) -> None:
        self.layer.pause_reading()

    def resume_reading(self) -> None:
        self.layer.resume_reading()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self.layer.raw is not None:
            self.layer.raw.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self.layer.raw is None else self.layer.raw.get_write_buffer_size()

    def is_closing(self) -> bool:
        return self.layer.closing

    def close(self) -> None:
        self.layer.close()

    def abort(self) -> None:
        self.layer.abort()


def reason_of(error: BaseException) -> str:
    """Why a handshake failed, for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return _REASONS.get(error.reason, str(error.reason).lower().replace("_", " "))
    return str(error) or type(error).__name__


_NOT_TLS = "it did not begin with TLS"
_REASONS = {
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "HTTP_REQUEST": f"{_NOT_TLS} but with HTTP",
    "HTTPS_PROXY_REQUEST": f"{_NOT_TLS} but with HTTP",
    "UNSUPPORTED_PROTOCOL": "it asked for a version of TLS that is not enabled",
    "VERSION_TOO_LOW": "it asked for a version of TLS that is not enabled",
    "NO_SHARED_CIPHER": "it offered no cipher suite that is enabled",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust the certificate of this broker",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side refuses the certificate of this broker",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side says that the certificate of this broker has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side refuses the certificate of this broker",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other side refuses this version of TLS",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side wants a certificate",
}
