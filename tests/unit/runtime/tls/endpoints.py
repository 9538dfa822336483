"""Both ends of connections with TLS: a server that echoes, and clients."""

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar, cast

import uvloop

from tidelog.config import BrokerConfig
from tidelog.runtime.sender import Sender
from tidelog.runtime.services import LoopServices
from tidelog.runtime.tls.certificates import Certificates
from tidelog.runtime.tls.linking import TlsLinks
from tidelog.runtime.tls.listening import TlsListener
from tidelog.runtime.tls.sender import sender_for
from tidelog.runtime.traffic import Reads
from tidelog.security.principal import ANONYMOUS

T = TypeVar("T")
PATIENCE_S = 20.0


def run(main: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await main

    return uvloop.run(limited())


class Protocol(asyncio.BufferedProtocol):
    """Collects what comes, in buffers of one size; echoes it if asked to."""

    def __init__(
        self, services: LoopServices, *, echoes: bool = False, buffer_bytes: int = 64 * 1024
    ) -> None:
        self.services = services
        self.principal = ANONYMOUS
        self.peer = "peer"
        self.received = bytearray()
        self.lost = asyncio.get_running_loop().create_future()
        self.ended = False
        self.pauses_at = -1  # Reading pauses once so many bytes have come.
        self._echoes = echoes
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._changed = asyncio.Event()
        self.transport: asyncio.Transport | None = None
        self.sender: Sender | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.sender = sender_for(self.transport, self.services, lambda: None, lambda reason: None, Reads())

    def connection_lost(self, error: Exception | None) -> None:
        if self.sender is not None:
            self.sender.close()
        if not self.lost.done():
            self.lost.set_result(error)
        self._changed.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        assert not self.is_paused()
        self.received += self._buffer[:count]
        self._changed.set()
        if self._echoes and self.sender is not None:
            self.sender.send((bytes(self._buffer[:count]),))
        if self.is_paused():
            cast(asyncio.Transport, self.transport).pause_reading()

    def is_paused(self) -> bool:
        return 0 <= self.pauses_at <= len(self.received)

    def eof_received(self) -> bool:
        self.ended = True
        return False

    def pause_writing(self) -> None:
        if self.sender is not None:
            self.sender.transport_full()

    def resume_writing(self) -> None:
        if self.sender is not None:
            self.sender.transport_drained()

    async def until(self, count: int) -> bytes:
        while len(self.received) < count and not self.lost.done():
            self._changed.clear()
            await self._changed.wait()
        return bytes(self.received)


class Server:
    """``async with Server(config) as server``: a listener with TLS on a free port."""

    def __init__(self, config: BrokerConfig, **protocol: Any) -> None:
        self.config = config
        self.certificates = Certificates(config, Path("/"))
        self.protocols: list[Protocol] = []
        self._protocol = {"echoes": True, **protocol}
        self.port = 0

    async def __aenter__(self) -> "Server":
        loop = asyncio.get_running_loop()
        self.services = LoopServices(loop)
        self.listener = TlsListener(self.config.listeners[0], self.certificates, loop)

        def accepted() -> asyncio.BaseProtocol:
            protocol = Protocol(self.services, **self._protocol)
            self.protocols.append(protocol)
            return self.listener.layer_for(protocol)

        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        self.port = bound.getsockname()[1]
        self._server = await loop.create_server(accepted, sock=bound)
        self.links = TlsLinks(
            self.config, self.certificates, loop, lambda node, address: self.config.listeners[0].name
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for protocol in self.protocols:
            if protocol.transport is not None:
                protocol.transport.abort()
        self.listener.close()
        self.links.close()
        self.services.close()

    async def link(self, host: str = "127.0.0.1", **protocol: Any) -> Protocol:
        """A connection as other nodes open it."""
        made = Protocol(self.services, **protocol)
        await self.links.open(made, 2, host, self.port)
        return made

    async def connect(
        self, context: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A client that is not ours."""
        host = None if context is None else "localhost"
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=context, server_hostname=host)

    async def until_failed(self, count: int = 1) -> None:
        while self.listener.failures < count:
            await asyncio.sleep(0.005)
