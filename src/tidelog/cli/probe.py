"""A look at a broker over a plain socket, cheaper than a Kafka client and quicker to say no.

Knows exactly two requests, ApiVersions version 0 and Metadata version 4; whatever is not a whole, sensible
answer counts as "not ready", because that is all its users ask.
"""

import socket
import struct
from collections.abc import Iterable

_CORRELATION_ID = 1
# length, api key, version, correlation id, client id (null)
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, _CORRELATION_ID, -1)
# the same, then no topics at all and no automatic creation
_METADATA = struct.pack(">ihhihi?", 15, 3, 4, _CORRELATION_ID, -1, 0, False)
_ANSWER_BYTES_MAX = 1 << 20


def parse_bootstrap(bootstrap: str) -> list[tuple[str, int]]:
    """``host:port,host:port`` as pairs; ValueError names the part that is none."""
    addresses = []
    for part in bootstrap.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"'{part.strip()}' is not an address like 127.0.0.1:9092")
        addresses.append((host.strip("[]"), int(port)))
    return addresses


def first_open(addresses: Iterable[tuple[str, int]], timeout_s: float) -> OSError | None:
    """``None`` as soon as one address accepts a connection, otherwise why the last one did not."""
    failure: OSError = ConnectionRefusedError("no address given")
    for address in addresses:
        try:
            with socket.create_connection(address, timeout_s):
                return None
        except OSError as error:
            failure = error
    return failure


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as candidate:
        # As a server would: connections of the last run that are still closing are no obstacle.
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind((host, port))
        except OSError:
            return False
    return True


def is_ready(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Whether a broker there speaks the protocol and knows a controller, without which no topic is made."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            versions = _ask(connection, _API_VERSIONS)
            if struct.unpack_from(">h", versions)[0] != 0:
                return False
            return _controller(_ask(connection, _METADATA)) >= 0
    except (OSError, struct.error, ValueError):
        return False


def _ask(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    length, correlation_id = struct.unpack(">ii", _receive(connection, 8))
    if correlation_id != _CORRELATION_ID or not 4 <= length <= _ANSWER_BYTES_MAX:
        raise ValueError("not an answer of a Kafka broker")
    return _receive(connection, length - 4)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("closed before the whole answer")
        received += part
    return bytes(received)


def _controller(metadata: bytes) -> int:
    """The controller id, which follows throttle time, brokers (id, host, port, rack) and cluster id."""
    (count,) = struct.unpack_from(">i", metadata, 4)
    position = 8
    for _ in range(count):
        position = _after_string(metadata, position + 4)  # id, host
        position = _after_string(metadata, position + 4)  # port, rack
    position = _after_string(metadata, position)
    return int(struct.unpack_from(">i", metadata, position)[0])


def _after_string(data: bytes, position: int) -> int:
    (length,) = struct.unpack_from(">h", data, position)
    return position + 2 + max(int(length), 0)
