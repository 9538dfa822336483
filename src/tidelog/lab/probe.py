"""A look at a broker over a plain socket, cheaper than a Kafka client and quicker to say no.

Knows exactly four requests: ApiVersions, DescribeCluster and DescribeQuorum in version 0, and Metadata in
version 7. Whatever is not a whole, sensible answer raises OSError, or counts as "not ready" where that is all
that was asked.
"""

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

_CORRELATION_ID = 1
_ANSWER_BYTES_MAX = 64 << 20


class PartitionView(NamedTuple):
    """What a broker says about one partition."""

    leader: int  # -1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What one broker says about the cluster."""

    brokers: dict[int, tuple[str, int]]  # those that serve, with host and port
    controller: int  # -1: none known
    topics: dict[str, list[PartitionView]]  # of the topics asked for, those that are there


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


def answers(host: str, port: int, timeout_s: float = 5.0) -> bool:
    """Whether a broker there answers an ApiVersions request without error."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            return _speaks_kafka(connection)
    except OSError:
        return False


def is_ready(host: str, port: int, brokers: int = 1, timeout_s: float = 2.0) -> bool:
    """Whether the broker there knows a controller, without which no topic is made, and so many brokers that
    serve, without which no topic has its replicas.
    """
    try:
        view = look(host, port, timeout_s=timeout_s)
    except OSError:
        return False
    return view.controller >= 0 and len(view.brokers) >= brokers


def look(host: str, port: int, *topics: str, timeout_s: float = 2.0) -> ClusterView:
    """What this broker says about the cluster and these topics; OSError where it says nothing sensible."""
    with socket.create_connection((host, port), timeout_s) as connection:
        if not _speaks_kafka(connection):
            raise ConnectionError(f"what listens on {host}:{port} is no Kafka broker")
        # Metadata names brokers, too, but goes on naming one that died for a while, for clients' sake.
        brokers, controller = _Reader(_ask(connection, 60, 0, b"\x00" * 3)).serving()
        if not topics:
            return ClusterView(brokers, controller, {})
        names = b"".join(struct.pack(">h", len(name.encode())) + name.encode() for name in topics)
        body = (
            struct.pack(">i", len(topics)) + names + b"\x00"
        )  # no topic comes into being by being asked for
        return ClusterView(brokers, controller, _Reader(_ask(connection, 3, 7, body)).topics())


def active_controller(host: str, port: int, timeout_s: float = 2.0) -> int:
    """The node that leads the controllers' quorum, -1 if this broker knows of none.

    Metadata names a controller, too, but a Kafka broker names anyone there: every broker passes on what is
    meant for the controller.
    """
    name = b"__cluster_metadata"
    body = b"\x00\x02" + bytes([len(name) + 1]) + name + b"\x02" + bytes(4) + b"\x00\x00\x00"
    with socket.create_connection((host, port), timeout_s) as connection:
        return _Reader(_ask(connection, 55, 0, body)).quorum_leader()


def _speaks_kafka(connection: socket.socket) -> bool:
    answer = _ask(connection, 18, 0, b"")
    return len(answer) >= 2 and answer[:2] == b"\x00\x00"


def _ask(connection: socket.socket, api_key: int, version: int, body: bytes) -> bytes:
    """Without a client id: it is nobody's business who looks."""
    head = struct.pack(">hhih", api_key, version, _CORRELATION_ID, -1)
    connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    length, correlation_id = struct.unpack(">ii", _receive(connection, 8))
    if correlation_id != _CORRELATION_ID or not 4 <= length <= _ANSWER_BYTES_MAX:
        raise ConnectionError("not an answer of a Kafka broker")
    return _receive(connection, length - 4)


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionResetError("closed before the whole answer")
        received += part
    return bytes(received)


class _Reader:
    """Reads an answer from front to back; what is cut short raises ConnectionError."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def serving(self) -> tuple[dict[int, tuple[str, int]], int]:
        """Of DescribeCluster: brokers that serve, and the controller."""
        self._take(">b")  # the header's tags
        self._take(">i")  # throttle time
        error = self._take(">h")
        self._short_string()  # its message
        if error:
            raise ConnectionError(f"the broker refuses to describe its cluster: error code {error}")
        self._short_string()  # cluster id
        controller = self._take(">i")
        brokers = {}
        for _ in range(self._varint() - 1):
            broker_id, host, port = self._take(">i"), self._short_string(), self._take(">i")
            self._short_string()  # rack
            self._take(">b")  # tags
            brokers[broker_id] = (host, port)
        return brokers, controller

    def topics(self) -> dict[str, list[PartitionView]]:
        """Of Metadata: those that are there."""
        self._take(">i")  # throttle time
        for _ in range(self._take(">i")):  # brokers
            self._take(">i")
            self._string()
            self._take(">i")
            self._string()
        self._string()  # cluster id
        self._take(">i")  # controller
        topics = dict(self._topic() for _ in range(self._take(">i")))
        return {name: partitions for name, partitions in topics.items() if partitions}

    def quorum_leader(self) -> int:
        self._take(">b")  # the header's tags
        error, topics = self._take(">h"), self._take(">b")
        if error or topics != 2:
            return -1
        self._short_string()
        self._take(">b")  # how many partitions: the one asked for
        self._take(">i")
        error, leader = self._take(">h"), self._take(">i")
        return -1 if error else leader

    def _topic(self) -> tuple[str, list[PartitionView]]:
        self._take(">h")
        name = self._string()
        self._take(">b")
        return name, [view for _, view in sorted(self._partition() for _ in range(self._take(">i")))]

    def _partition(self) -> tuple[int, PartitionView]:
        self._take(">h")
        index, leader, epoch = (self._take(">i") for _ in range(3))
        replicas, in_sync, _offline = (self._numbers() for _ in range(3))
        return index, PartitionView(leader, epoch, replicas, in_sync)

    def _numbers(self) -> tuple[int, ...]:
        return tuple(self._take(">i") for _ in range(self._take(">i")))

    def _string(self) -> str:
        return self._text(max(self._take(">h"), 0))

    def _short_string(self) -> str:
        """As newer versions write them."""
        return self._text(max(self._varint() - 1, 0))

    def _text(self, length: int) -> str:
        start, self._position = self._position, self._position + length
        if self._position > len(self._data):
            raise ConnectionError("the answer is cut short")
        return self._data[start : self._position].decode(errors="replace")

    def _varint(self) -> int:
        value = shift = 0
        while (part := self._take(">B")) & 0x80:
            value |= (part & 0x7F) << shift
            shift += 7
        return value | part << shift

    def _take(self, form: str) -> int:
        try:
            (value,) = struct.unpack_from(form, self._data, self._position)
        except struct.error:
            raise ConnectionError("the answer is cut short") from None
        self._position += struct.calcsize(form)
        return int(value)
