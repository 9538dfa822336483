"""Connections to other nodes, with TLS or without, as the listener at the other end wants it."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from tidelog.config import BrokerConfig
from tidelog.runtime.tls.certificates import Certificates
from tidelog.runtime.tls.handshakes import Handshakes, HandshakeThread
from tidelog.runtime.tls.layer import Inner, TlsLayer

NO_LIMIT = 1 << 30


class TlsOpening(NamedTuple):
    """Hooks of one connection that this node opens."""

    done: asyncio.Future[None]

    def opened(self, layer: TlsLayer) -> None:
        """The caller limits the time."""

    def secured(self, layer: TlsLayer) -> str | None:
        if self.done.done():
            return "it took too long"
        layer.inner.connection_made(layer.new_transport())
        self.done.set_result(None)
        return None

    def failed(self, layer: TlsLayer, reason: str, error: BaseException | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError(f"TLS: {reason}"))


class TlsLinks:
    """Opens connections. ``listener_at`` says which listener an address of a node belongs to."""

    def __init__(
        self,
        config: BrokerConfig,
        certificates: Certificates | None,
        loop: asyncio.AbstractEventLoop,
        listener_at: Callable[[int, tuple[str, int]], str],
    ) -> None:
        self._config = config
        self._certificates = certificates
        self._loop = loop
        self._listener_at = listener_at
        self._thread = HandshakeThread(loop, "links")
        self._handshakes = Handshakes(NO_LIMIT)

    async def open(self, inner: Inner, peer: int, host: str, port: int) -> None:
        """Returns when the connection can be used. Raises ``OSError``."""
        listener = self._listener_at(peer, (host, port))
        if self._certificates is None or not self._config.protocol_of(listener).encrypts:
            await self._loop.create_connection(lambda: inner, host, port)
            return
        opening = TlsOpening(self._loop.create_future())
        context = self._certificates.client(listener)
        layer = TlsLayer(inner, context, opening, self._thread, self._handshakes, host)
        try:
            await self._loop.create_connection(lambda: layer, host, port)
            await opening.done
        except BaseException:
            layer.abort()
            raise

    def close(self) -> None:
        self._thread.close()
