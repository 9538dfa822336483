"""Requests that no client library has: a connection per broker, one question at a time, in the newest
version.

Knows sockets and frames, and the one answer that the schemas cannot read: a transaction that never began has
the time -1 in it.
"""

import socket
import struct
from types import TracebackType
from typing import Any, NamedTuple

from tidelog.cli.client import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S
from tidelog.cli.failure import CommandFailed
from tidelog.errors import ErrorCode, TidelogError
from tidelog.lab.probe import parse_bootstrap
from tidelog.protocol import requests
from tidelog.protocol.messages import Fields
from tidelog.protocol.wire import INT16, INT32, INT64, read_array_size, read_string, skip_tags

METADATA, FIND_COORDINATOR, DESCRIBE_TRANSACTIONS = 3, 10, 65
CLIENT_ID = "tidelog-cli"
_TRANSACTION_COORDINATOR = 1


class Address(NamedTuple):
    host: str
    port: int


class Described(NamedTuple):
    """What a coordinator says of a transactional id."""

    error: ErrorCode
    transactional_id: str
    state: str
    timeout_ms: int
    started_ms: int  # -1: no transaction was begun
    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]


class TxnClient:
    """A cluster, seen through one of its brokers."""

    def __init__(self, bootstrap: str) -> None:
        try:
            addresses = [Address(*each) for each in parse_bootstrap(bootstrap)]
        except ValueError as error:
            raise CommandFailed(f"--bootstrap: {error}.") from None
        self._connections: dict[Address, socket.socket] = {}
        self._bootstrap = self._first_open(addresses, bootstrap)

    def __enter__(self) -> "TxnClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def _first_open(self, addresses: list[Address], bootstrap: str) -> Address:
        failure: OSError | None = None
        for address in addresses:
            try:
                self._connect(address)
                return address
            except OSError as error:
                failure = error
        reason = (failure.strerror or str(failure)).lower() if failure is not None else "no address"
        raise CommandFailed(
            f"No broker answers at {bootstrap} ({reason}); "
            "start one with `tidelog up`, or name another one with --bootstrap."
        )

    def _connect(self, address: Address) -> socket.socket:
        connection = self._connections.get(address)
        if connection is None:
            connection = socket.create_connection(address, CONNECT_TIMEOUT_S)
            connection.settimeout(REQUEST_TIMEOUT_S)
            self._connections[address] = connection
        return connection

    # -- asking ------------------------------------------------------------------------

    def ask(self, address: Address, api_key: int, body: Fields) -> Any:
        """The answer as the schemas read it."""
        try:
            return requests.decode_answer(api_key, memoryview(self._exchange(address, api_key, body)))
        except TidelogError as error:
            raise CommandFailed(
                f"{address.host}:{address.port} does not answer as expected: {error}."
            ) from None

    def _exchange(self, address: Address, api_key: int, body: Fields) -> bytes:
        try:
            connection = self._connect(address)
            connection.sendall(requests.encode_request(api_key, 1, CLIENT_ID, body))
            (size,) = struct.unpack(">i", _receive(connection, 4))
            return _receive(connection, size)
        except OSError as error:
            raise CommandFailed(
                f"The connection to {address.host}:{address.port} was lost: {error}."
            ) from None

    def metadata(self, *topics: str) -> Any:
        body = {"topics": [{"name": topic} for topic in topics], "allow_auto_topic_creation": False}
        return self.ask(self._bootstrap, METADATA, body)

    def brokers(self) -> dict[int, Address]:
        return {each.node_id: Address(each.host, each.port) for each in self.metadata().brokers}

    def coordinator_of(self, transactional_id: str) -> tuple[int, Address]:
        body = {"key_type": _TRANSACTION_COORDINATOR, "coordinator_keys": [transactional_id]}
        (found,) = self.ask(self._bootstrap, FIND_COORDINATOR, body).coordinators
        if found.error_code:
            name = ErrorCode(found.error_code).name
            raise CommandFailed(f"'{transactional_id}' has no coordinator now ({name}); try again.", name)
        return found.node_id, Address(found.host, found.port)

    def leader_of(self, topic: str, partition: int) -> Address:
        found = self.metadata(topic)
        described = found.topics[0]
        if described.error_code:
            raise CommandFailed(
                f"Topic '{topic}' does not exist; `tidelog topic list` shows those there are."
            )
        leaders = {each.partition_index: each.leader_id for each in described.partitions}
        if partition not in leaders:
            raise CommandFailed(f"Topic '{topic}' has no partition {partition}.")
        addresses = {each.node_id: Address(each.host, each.port) for each in found.brokers}
        if leaders[partition] not in addresses:
            raise CommandFailed(f"Nobody leads {topic}-{partition} now; try again.")
        return addresses[leaders[partition]]

    def describe(self, address: Address, transactional_id: str) -> Described:
        body = {"transactional_ids": [transactional_id]}
        return _read_description(self._exchange(address, DESCRIBE_TRANSACTIONS, body))


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        data = connection.recv(size - len(received))
        if not data:
            raise ConnectionError("the broker closed it")
        received += data
    return bytes(received)


def _read_description(frame: bytes) -> Described:
    """DescribeTransactions, version 0: header tags, throttle time, one state."""
    position = skip_tags(frame, 4) + INT32.size
    _, position = read_array_size(frame, position, True)
    (error,) = INT16.unpack_from(frame, position)
    name, position = read_string(frame, position + INT16.size, True)
    state, position = read_string(frame, position, True)
    (timeout_ms,) = INT32.unpack_from(frame, position)
    (started_ms,) = INT64.unpack_from(frame, position + 4)
    (producer_id,) = INT64.unpack_from(frame, position + 12)
    (epoch,) = INT16.unpack_from(frame, position + 20)
    topics, position = read_array_size(frame, position + 22, True)
    partitions = []
    for _ in range(topics):
        topic, position = read_string(frame, position, True)
        indexes, position = read_array_size(frame, position, True)
        for _ in range(indexes):
            partitions.append((topic or "", INT32.unpack_from(frame, position)[0]))
            position += INT32.size
        position = skip_tags(frame, position)
    return Described(
        ErrorCode(error), name or "", state or "", timeout_ms, started_ms, producer_id, epoch,
        tuple(sorted(partitions)),
    )  # fmt: skip
