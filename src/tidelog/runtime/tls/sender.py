"""Sends the responses of a connection with TLS: encrypts them, and writes the encrypted bytes at once."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from tidelog.runtime.sender import MORE, QUIET_FROM_BYTES, Sender
from tidelog.runtime.tls.layer import TlsTransport
from tidelog.runtime.traffic import Reads
from tidelog.services import Services


class TlsSender(Sender):
    __slots__ = ("_layer",)

    encrypts = True

    def __init__(
        self,
        transport: asyncio.Transport,
        services: Services,
        drained: Callable[[], None],
        broken: Callable[[str], None],
        reads: Reads,
    ) -> None:
        self._layer = cast(TlsTransport, transport).layer
        super().__init__(transport, services, drained, broken, reads)

    def _send_now(self, buffers: list[bytes | bytearray | memoryview]) -> None:
        if self._socket is None:
            return
        data = self._layer.encrypt(buffers)
        flags = MORE if len(data) >= QUIET_FROM_BYTES else 0
        try:
            self._unsent = not self._layer.transmit(data, flags)
            if flags:
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            self._broken(str(error))
            self.close()


def sender_for(
    transport: asyncio.Transport,
    services: Services,
    drained: Callable[[], None],
    broken: Callable[[str], None],
    reads: Reads,
) -> Sender:
    """The sender of a connection, by its transport."""
    kind = TlsSender if isinstance(transport, TlsTransport) else Sender
    return kind(transport, services, drained, broken, reads)
