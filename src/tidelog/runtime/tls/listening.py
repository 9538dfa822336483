"""A listener with TLS: gives each accepted connection its layer, and says who is at the other end."""

import asyncio
import logging
from typing import cast

from tidelog.config import Listener, SecurityProtocol
from tidelog.runtime.tls.certificates import Certificates
from tidelog.runtime.tls.handshakes import Handshakes, HandshakeThread
from tidelog.runtime.tls.layer import Inner, TlsLayer
from tidelog.security.principal import ANONYMOUS, Principal
from tidelog.security.subjects import NoRuleError, principal_of

logger = logging.getLogger(__name__)

LINES_MAX = 10  # of the log, about failed handshakes
LINES_PER_S = 10.0


class Identified(asyncio.BufferedProtocol):
    """A connection that can be told who is at its other end."""

    principal: Principal
    peer: str


class TlsListener:
    def __init__(
        self, listener: Listener, certificates: Certificates, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._listener = listener
        self._certificates = certificates
        self._loop = loop
        self._thread = HandshakeThread(loop, listener.name.lower())
        self.handshakes = Handshakes(certificates.server(listener.name).handshakes_max)
        self.completed = 0
        self.failures = 0
        self._lines_since_s = 0.0
        self._lines = 0

    def layer_for(self, connection: Inner) -> TlsLayer:
        context = self._certificates.server(self._listener.name).context
        return TlsLayer(connection, context, self, self._thread, self.handshakes)

    def close(self) -> None:
        self._thread.close()

    # --- handshakes -----------------------------------------------------------------------------------------

    def opened(self, layer: TlsLayer) -> None:
        layer.expire_after(self._certificates.server(self._listener.name).timeout_s, self._loop)
        layer.inner.connection_made(layer.new_transport())

    def secured(self, layer: TlsLayer) -> str | None:
        self.completed += 1
        if self._listener.protocol is not SecurityProtocol.SSL:
            return None  # SASL says who it is.
        try:
            cast(Identified, layer.inner).principal = self._principal(layer)
        except NoRuleError as error:
            return error.message
        return None

    def _principal(self, layer: TlsLayer) -> Principal:
        certificate = layer.tls.getpeercert()
        if not certificate:
            return ANONYMOUS
        rules = self._certificates.server(self._listener.name).rules
        return principal_of(certificate.get("subject", ()), rules)  # type: ignore[arg-type]

    def failed(self, layer: TlsLayer, reason: str, error: BaseException | None) -> None:
        self.failures += 1
        if not layer.began:
            # A check that the port is open, as by other nodes and load balancers.
            logger.debug("a connection at %s ended before its handshake: %s", self._listener.name, reason)
            return
        now_s = self._loop.time()
        if now_s - self._lines_since_s > LINES_MAX / LINES_PER_S:
            if self._lines > LINES_MAX:
                left = self._lines - LINES_MAX
                logger.info("%s more TLS handshakes failed at %s", left, self._listener.name)
            self._lines_since_s, self._lines = now_s, 0
        self._lines += 1
        if self._lines <= LINES_MAX:
            peer = cast(Identified, layer.inner).peer
            logger.info("TLS handshake of %s at %s failed: %s", peer, self._listener.name, reason)
