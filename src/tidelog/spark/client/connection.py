"""One blocking connection to one broker: frames out, frames in, TLS and SASL where asked for.

Owns the socket and the request header. Refuses to know what the bodies mean: callers encode and decode them.
Answers come in the order of the requests, so several may be on their way (:meth:`Connection.send`, then
:meth:`Connection.receive` for each).
"""

import contextlib
import socket
import struct
from enum import IntEnum

from tidelog.spark.client.settings import ClientSettings

PADDING_BYTES = 64
"""Behind every answer lie so many zero bytes: compiled readers may look past its end by a varint."""

_ANSWER_BYTES_MAX = 1 << 30
_FRAME = struct.Struct(">ii")
_HEAD = struct.Struct(">ihhih")


class Api(IntEnum):
    """The requests that the Spark side sends."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    SASL_AUTHENTICATE = 36
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66


FLEXIBLE_FROM: dict[int, int] = {
    Api.PRODUCE: 9,
    Api.FETCH: 12,
    Api.LIST_OFFSETS: 6,
    Api.METADATA: 9,
    Api.OFFSET_COMMIT: 8,
    Api.OFFSET_FETCH: 6,
    Api.FIND_COORDINATOR: 3,
    Api.API_VERSIONS: 3,
    Api.CREATE_TOPICS: 5,
    Api.INIT_PRODUCER_ID: 2,
    Api.ADD_PARTITIONS_TO_TXN: 3,
    Api.ADD_OFFSETS_TO_TXN: 3,
    Api.END_TXN: 3,
    Api.TXN_OFFSET_COMMIT: 3,
    Api.SASL_AUTHENTICATE: 2,
    Api.DESCRIBE_TRANSACTIONS: 0,
    Api.LIST_TRANSACTIONS: 0,
}


class Room:
    """Memory that answers are received into, one after the other: fresh memory costs more than the copy."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def of(self, size: int) -> bytearray:
        """At least so many bytes; what they hold is whatever was there before."""
        if size > len(self._bytes):
            self._bytes = bytearray(size + size // 8)
        return self._bytes


class Connection:
    """Connected and authenticated when made; any OSError means that it is of no more use."""

    def __init__(self, host: str, port: int, settings: ClientSettings) -> None:
        self.address = (host, port)
        self._client_id = settings.client_id.encode()
        self._next_id = 0
        self._awaited: list[tuple[int, bool]] = []  # (correlation id, header has tags), oldest first
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
        from tidelog.spark.client.tls import wrapped  # most workers never need it

        return wrapped(sock, self.address[0], settings.tls)

    def _authenticate(self, settings: ClientSettings) -> None:
        if settings.sasl is not None:
            from tidelog.spark.client.sasl import authenticate

            authenticate(self.call, settings.sasl)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def fileno(self) -> int:
        """For whoever waits for answers on several connections."""
        return self._socket.fileno()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, api: int, version: int, body: bytes) -> memoryview:
        """The body of the answer."""
        self.send(api, version, body)
        return self.receive()

    def send(self, api: int, version: int, *body: bytes | bytearray | memoryview) -> None:
        """A request in pieces, so that large ones need not be put together."""
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        flexible = version >= FLEXIBLE_FROM.get(api, 1 << 15)
        size = _HEAD.size - 4 + len(self._client_id) + flexible + sum(map(len, body))
        head = _HEAD.pack(size, api, version, correlation_id, len(self._client_id)) + self._client_id
        pieces = [head + b"\x00" if flexible else head, *body]
        if size < 1 << 16:
            self._socket.sendall(b"".join(pieces))
        else:
            for piece in pieces:
                self._socket.sendall(piece)
        # The header of an ApiVersions answer never has tags: it is read before versions are known.
        self._awaited.append((correlation_id, flexible and api != Api.API_VERSIONS))

    def receive(self, room: "Room | None" = None) -> memoryview:
        """The body of the answer to the oldest request, with :data:`PADDING_BYTES` behind its end.

        With a ``room`` it lies there, and is gone when the next one is received into it.
        """
        correlation_id, has_tags = self._awaited.pop(0)
        head = bytearray(_FRAME.size)
        self._fill(memoryview(head))
        size, answered_id = _FRAME.unpack(head)
        if answered_id != correlation_id or not 4 <= size <= _ANSWER_BYTES_MAX:
            raise ConnectionError(f"{self.address[0]}:{self.address[1]} does not answer like a Kafka broker")
        body = bytearray(size - 4 + PADDING_BYTES) if room is None else room.of(size - 4 + PADDING_BYTES)
        view = memoryview(body)[: size - 4]
        self._fill(view)
        return view[_behind_tags(view) :] if has_tags else view

    def _fill(self, view: memoryview) -> None:
        receive = self._socket.recv_into
        while view:
            count = receive(view)
            if not count:
                raise ConnectionResetError(f"{self.address[0]}:{self.address[1]} closed the connection")
            view = view[count:]


def _behind_tags(body: memoryview) -> int:
    """Brokers put nothing there today; tags of tomorrow are skipped."""
    if body[0] == 0:
        return 1
    count, position = _uvarint(body, 0)
    for _ in range(count):
        _, position = _uvarint(body, position)
        size, position = _uvarint(body, position)
        position += size
    return position


def _uvarint(body: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
