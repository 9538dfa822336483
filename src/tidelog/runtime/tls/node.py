"""All of a node's TLS: its certificates, its listeners with TLS, and its links to other nodes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tidelog.config import BrokerConfig, Listener
from tidelog.runtime.tls.certificates import Certificates, needs_certificates
from tidelog.runtime.tls.linking import TlsLinks
from tidelog.runtime.tls.listening import TlsListener
from tidelog.services import Services


class NodeTls:
    """Does nothing in a node without TLS."""

    def __init__(self, config: BrokerConfig, directory: Path, loop: asyncio.AbstractEventLoop) -> None:
        """Relative paths start at ``directory``. Raises ``InvalidConfig`` for bad certificates."""
        self._config = config
        self._loop = loop
        self.certificates = Certificates(config, directory) if needs_certificates(config) else None
        self.listeners: dict[str, TlsListener] = {}
        self._links: TlsLinks | None = None

    def watch(self, services: Services) -> None:
        if self.certificates is not None:
            self.certificates.watch(self._loop, services)

    def reload(self, services: Services) -> None:
        if self.certificates is not None:
            self.certificates.reload(services)

    def listener(self, listener: Listener) -> TlsListener | None:
        """For one with TLS; None for another."""
        if self.certificates is None or not listener.protocol.encrypts:
            return None
        made = self.listeners[listener.name] = TlsListener(listener, self.certificates, self._loop)
        return made

    def links(self, listener_at: Callable[[int, tuple[str, int]], str]) -> TlsLinks:
        self._links = TlsLinks(self._config, self.certificates, self._loop, listener_at)
        return self._links

    def close(self) -> None:
        if self.certificates is not None:
            self.certificates.stop()
        for listener in self.listeners.values():
            listener.close()
        if self._links is not None:
            self._links.close()
