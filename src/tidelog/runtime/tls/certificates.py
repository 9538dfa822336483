"""The certificates of this process: what each listener and each link uses now, and how they change.

The files are looked at every few seconds, and when the process gets SIGHUP. If one has changed, new contexts
are made of all of them. New connections use them; those that are open stay. If the new files are not valid,
the old contexts stay, and the log says why, so that a mistake during a renewal does not stop a broker.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tidelog.config import BrokerConfig
from tidelog.errors import TidelogError
from tidelog.runtime.tls.contexts import client_context, server_context
from tidelog.runtime.tls.stores import paths_of, stores_of
from tidelog.security.subjects import Rule, parse_rules
from tidelog.services import Services

logger = logging.getLogger(__name__)

LOOK_S = 5.0


class ServerTls(NamedTuple):
    """What a listener's connections begin with."""

    context: ssl.SSLContext
    rules: tuple[Rule, ...]
    timeout_s: float
    handshakes_max: int


class Contexts(NamedTuple):
    servers: Mapping[str, ServerTls]  # by listener
    clients: Mapping[str, ssl.SSLContext]  # for links to other nodes, by the listener that they connect to


Stamps = Mapping[Path, tuple[int, int, int] | None]


class Certificates:
    def __init__(self, config: BrokerConfig, directory: Path) -> None:
        """Relative paths start at ``directory``. Raises ``InvalidConfig``."""
        self._config = config
        self._directory = directory
        self._stamps = self._look()
        self._contexts = self._make()
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False
        self.reloads = 0

    def server(self, listener: str) -> ServerTls:
        return self._contexts.servers[listener]

    def client(self, listener: str) -> ssl.SSLContext:
        return self._contexts.clients[listener]

    def _make(self) -> Contexts:
        config, directory = self._config, self._directory
        servers, clients = {}, {}
        for listener in config.listeners:
            if listener.protocol.encrypts:
                own = config.of_listener(listener.name)
                servers[listener.name] = ServerTls(
                    server_context(own, stores_of(own, directory)),
                    parse_rules(own.ssl_principal_mapping_rules),
                    own.ssl_handshake_timeout_ms / 1000,
                    own.ssl_handshakes_max,
                )
        for name in config.linked_listener_names:
            if config.protocol_of(name).encrypts:
                own = config.of_listener(name)
                clients[name] = client_context(own, stores_of(own, directory))
        return Contexts(servers, clients)

    # --- changes --------------------------------------------------------------------------------------------

    def watch(self, loop: asyncio.AbstractEventLoop, services: Services) -> None:
        """Look at the files from now on."""

        def look_again() -> None:
            self._timer = loop.call_later(LOOK_S, look_again)
            self.reload(services)

        if self._stamps:
            self._timer = loop.call_later(LOOK_S, look_again)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def reload(self, services: Services, done: Callable[[bool], None] | None = None) -> None:
        """Read the files again if they have changed. In a thread: they may lie on a slow disk."""
        if self._looking:
            return
        self._looking = True

        def finished(result: bool | BaseException) -> None:
            self._looking = False
            if isinstance(result, BaseException):
                logger.error("the certificates cannot be read again", exc_info=result)
            if done is not None:
                done(result is True)

        services.offload(self.read_again, finished)

    def read_again(self) -> bool:
        """Returns whether there are new contexts."""
        stamps = self._look()
        if stamps == self._stamps:
            return False
        try:
            contexts = self._make()
        except TidelogError as error:
            logger.error("the changed certificates are not used: %s", error.message)
            self._stamps = stamps  # Said once for each change.
            return False
        self._stamps, self._contexts = stamps, contexts
        self.reloads += 1
        logger.info("the certificates have changed; new connections use the new ones")
        return True

    def _look(self) -> Stamps:
        config = self._config
        names = {listener.name for listener in config.listeners} | config.linked_listener_names
        used = [name for name in names if config.protocol_of(name).encrypts]
        paths = {path for name in used for path in paths_of(config.of_listener(name), self._directory)}
        return {path: _stamp(path) for path in sorted(paths)}


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def needs_certificates(config: BrokerConfig) -> bool:
    names = {listener.name for listener in config.listeners} | config.linked_listener_names
    return any(config.protocol_of(name).encrypts for name in names)
