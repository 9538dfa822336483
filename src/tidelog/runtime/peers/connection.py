"""An outgoing connection to another node: logs in, sends request frames and receives response frames."""

import asyncio
import logging
from typing import Protocol, cast

from tidelog.broker.requests.request import HangUp
from tidelog.errors import InvalidRequest
from tidelog.runtime.peers.node_login import NodeLogin
from tidelog.runtime.receiver import OWN_BUFFER_FROM_BYTES, Receiver
from tidelog.runtime.sender import Sender
from tidelog.runtime.tls.sender import sender_for
from tidelog.runtime.traffic import Reads
from tidelog.security.sasl import LoginRefused
from tidelog.services import Services

logger = logging.getLogger(__name__)


class Owner(Protocol):
    def connected(self, connection: "PeerConnection") -> None: ...

    def take(self, response: memoryview) -> None:
        """A whole response frame, from its correlation id on. It may be overwritten as soon as no view of it
        is left.
        """

    def disconnected(self, connection: "PeerConnection", reason: str) -> None: ...


class ResponseReceiver(Receiver):
    LEAST_BYTES = 5
    # The size of a busy leader's response. A leader sends as much as it announces.
    SPARE_BYTES_MAX = 4 * 1024 * 1024
    LAZY_FROM_BYTES = 16 * 1024 * 1024

    __slots__ = ()

    def _check_kind(self, size: int) -> None:
        """Any response may be as large as its limit."""


class PeerConnection(asyncio.BufferedProtocol):
    __slots__ = (
        "_is_open", "_login", "_opened", "_owner", "_reason", "_receiver", "_sender", "_services",
        "_transport",
    )  # fmt: skip

    def __init__(
        self, owner: Owner, services: Services, max_bytes: int, login: NodeLogin | None = None
    ) -> None:
        """``login``: what has to be done before the owner can use the connection. Created on its loop."""
        self._owner = owner
        self._login = login
        self._is_open = False  # The owner was told, and is told of the end, too.
        self._opened = None if login is None else asyncio.get_running_loop().create_future()
        self._services = services
        self._receiver = ResponseReceiver(max_bytes)
        self._transport: asyncio.Transport | None = None
        self._sender: Sender | None = None
        self._reason = "the other side closed it"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._sender = sender_for(self._transport, self._services, lambda: None, self.close, Reads())
        self._sender.keep_alive()
        if self._login is None:
            self._is_open = True
            self._owner.connected(self)
        else:
            self.send(self._login.first())

    def connection_lost(self, error: Exception | None) -> None:
        if self._sender is None:
            return  # It was abandoned.
        self._sender.close()
        self._transport = self._sender = None
        reason = str(error) if error else self._reason
        if self._is_open:
            self._owner.disconnected(self, reason)
        elif self._opened is not None and not self._opened.done():
            self._opened.set_exception(ConnectionError(reason))

    async def opened(self) -> None:
        """Wait for the login, if there is one. Raises ``OSError`` if it fails."""
        if self._opened is not None:
            await self._opened

    def abandon(self, reason: str) -> bool:
        """The attempt to connect is over. Returns whether this connection was open already, and its owner is
        told that it is not any more: on a busy machine it may open and time out in the same turn of the event
        loop. uvloop then closes the transport without telling its protocol, and the owner would wait for
        responses for ever.
        """
        if self._opened is not None:
            self._opened.cancel()
        if self._transport is None:
            return False
        self.close(reason)
        self.connection_lost(None)
        return self._is_open

    def close(self, reason: str) -> None:
        """Close the connection. The owner is notified when the transport is closed, never from this call."""
        if self._transport is not None:
            self._reason = reason
            self._transport.abort()

    def send(self, frame: bytes | bytearray) -> None:
        if self._sender is not None:
            self._sender.send((frame,))

    def pause_writing(self) -> None:
        if self._sender is not None:
            self._sender.transport_full()

    def resume_writing(self) -> None:
        if self._sender is not None:
            self._sender.transport_drained()

    # --- responses in ---------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._receiver.buffer()

    def buffer_updated(self, count: int) -> None:
        if not self._receiver.received(count):
            return
        try:
            self._take_responses()
        except (InvalidRequest, HangUp) as error:
            self.close(error.message)
        except LoginRefused as error:
            self.close(f"the login failed: {error.reason}")
        except Exception:
            logger.exception("a response could not be processed")
            self.close("a response could not be processed")

    def _take_responses(self) -> None:
        receiver = self._receiver
        while self._transport is not None:
            response = receiver.next()
            if response is not None and self._login is not None:
                self._log_in(self._login, response)
            elif response is not None:
                self._owner.take(response)
                if len(response) >= OWN_BUFFER_FROM_BYTES:
                    self._use_again(response)
            elif receiver.needed_bytes:
                receiver.begin_large()
            else:
                return

    def _log_in(self, login: NodeLogin, response: memoryview) -> None:
        request = login.take(response)
        if request:
            self.send(request)
        elif login.done:
            self._login = None
            self._is_open = True
            if self._opened is not None and not self._opened.done():
                self._opened.set_result(None)
            self._owner.connected(self)

    def _use_again(self, response: memoryview) -> None:
        """Reuse the buffer: clearing new memory for each large response would cost as much as checking it."""
        buffer = response.obj
        if not isinstance(buffer, bytearray):
            return
        try:
            response.release()
            buffer.pop()  # Raises BufferError while a view of it exists.
        except BufferError:
            return
        buffer.append(0)
        self._receiver.give_back(memoryview(buffer))
