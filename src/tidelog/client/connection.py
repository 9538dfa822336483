"""One blocking connection to one broker: frames out, frames in, optionally TLS and SASL.

Owns the socket and the request header. Does not know the bodies: callers encode and decode them. Responses
arrive in the order of the requests, so several may be in flight (:meth:`BrokerConnection.send`, then
:meth:`BrokerConnection.receive` for each).
"""

import contextlib
import socket
import struct

from tidelog.client.apis import FLEXIBLE_FROM, Api
from tidelog.client.errors import UnlikelyResponse
from tidelog.client.reader import behind_tags
from tidelog.client.settings import ClientSettings
from tidelog.client.versions import ServedVersions, served_versions

PADDING_BYTES = 64
"""Zero bytes after every response: compiled readers may read past its end by a varint."""

_RESPONSE_BYTES_MAX = 1 << 30
_FRAME = struct.Struct(">ii")
_HEAD = struct.Struct(">ihhih")


class Room:
    """Reusable memory for responses: fresh memory costs more than the copy."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def of(self, size: int) -> bytearray:
        """At least that many bytes, uninitialised."""
        if size > len(self._bytes):
            self._bytes = bytearray(size + size // 8)
        return self._bytes


class BrokerConnection:
    """Connected and authenticated when created; after any OSError it cannot be used."""

    def __init__(self, host: str, port: int, settings: ClientSettings) -> None:
        self.address = (host, port)
        self._client_id = settings.client_id.encode()
        self._next_id = 0
        self._awaited: list[
            tuple[int, int, bool]
        ] = []  # (correlation id, api, header has tags), oldest first
        self._protocol = settings.protocol
        self._versions: ServedVersions | None = None
        self._is_proven = False  # whether it answered a request that needs the right security protocol
        sock = socket.create_connection(self.address, settings.connect_timeout_ms / 1000)
        try:
            sock.settimeout(settings.request_timeout_ms / 1000)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = self._secured(sock, settings)
            self._authenticate(settings)
        except BaseException:
            sock.close()
            raise

    def _secured(self, sock: socket.socket, settings: ClientSettings) -> socket.socket:
        if settings.tls is None:
            return sock
        from tidelog.client.tls import wrapped  # most workers never need it

        return wrapped(sock, self.address[0], settings.tls)

    def _authenticate(self, settings: ClientSettings) -> None:
        if settings.sasl is not None:
            from tidelog.client.sasl import authenticate

            authenticate(self.call, settings.sasl, settings.tls)

    def versions(self) -> ServedVersions:
        """Which requests the broker serves; asked once."""
        if self._versions is None:
            self._versions = served_versions(self.address, self.call(Api.API_VERSIONS, 0, b""))
        return self._versions

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def fileno(self) -> int:
        """For callers that wait for several connections."""
        return self._socket.fileno()

    def __enter__(self) -> "BrokerConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, api: int, version: int, body: bytes, *, flexible: bool | None = None) -> memoryview:
        """The body of the response. ``flexible``: whether headers carry tags, for a request that
        :data:`FLEXIBLE_FROM` does not list.
        """
        self.send(api, version, body, flexible=flexible)
        return self.receive()

    def send(
        self, api: int, version: int, *body: bytes | bytearray | memoryview, flexible: bool | None = None
    ) -> None:
        """Send a request in pieces, so that large ones need not be joined."""
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        if flexible is None:
            flexible = version >= FLEXIBLE_FROM.get(api, 1 << 15)
        size = _HEAD.size - 4 + len(self._client_id) + flexible + sum(map(len, body))
        head = _HEAD.pack(size, api, version, correlation_id, len(self._client_id)) + self._client_id
        pieces = [head + b"\x00" if flexible else head, *body]
        if size < 1 << 16:
            self._socket.sendall(b"".join(pieces))
        else:
            for piece in pieces:
                self._socket.sendall(piece)
        # The header of an ApiVersions response never has tags: it is read before versions are known.
        self._awaited.append((correlation_id, api, flexible and api != Api.API_VERSIONS))

    def receive(self, room: "Room | None" = None) -> memoryview:
        """The body of the response to the oldest request, followed by :data:`PADDING_BYTES`.

        With a ``room`` it is stored there, and is valid until the next one is received into it.
        """
        correlation_id, api, has_tags = self._awaited.pop(0)
        head = bytearray(_FRAME.size)
        self._fill(memoryview(head))
        size, answered_id = _FRAME.unpack(head)
        if answered_id != correlation_id or not 4 <= size <= _RESPONSE_BYTES_MAX:
            raise UnlikelyResponse(
                f"{self._where} does not respond like a Kafka broker, "
                f"or expects another security protocol than {self._protocol}"
            )
        body = bytearray(size - 4 + PADDING_BYTES) if room is None else room.of(size - 4 + PADDING_BYTES)
        view = memoryview(body)[: size - 4]
        self._fill(view)
        # A listener that expects SASL answers ApiVersions before it closes the connection.
        self._is_proven = self._is_proven or api != Api.API_VERSIONS
        return view[behind_tags(view) :] if has_tags else view

    def _fill(self, view: memoryview) -> None:
        receive = self._socket.recv_into
        while view:
            try:
                count = receive(view)
            except ConnectionResetError:
                count = 0
            if not count:
                raise self._closed()
            view = view[count:]

    def _closed(self) -> OSError:
        if self._is_proven:
            return ConnectionResetError(f"{self._where} closed the connection")
        return UnlikelyResponse(
            f"{self._where} closed the connection without an answer, as a listener does that expects "
            f"another security protocol than {self._protocol}"
        )

    @property
    def _where(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"
