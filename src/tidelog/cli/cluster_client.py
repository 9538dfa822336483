"""Requests that no client library has: a connection per broker, one question at a time, in the newest
version. Knows sockets and frames, not what the questions mean.
"""

import socket
import struct
from types import TracebackType
from typing import Any, NamedTuple, Self

from tidelog.cli.client import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S
from tidelog.cli.failure import CommandFailed
from tidelog.errors import ErrorCode, TidelogError
from tidelog.lab.probe import parse_bootstrap
from tidelog.protocol import requests
from tidelog.protocol.messages import Fields

METADATA = 3
CLIENT_ID = "tidelog-cli"


class Address(NamedTuple):
    host: str
    port: int


class ClusterClient:
    """A cluster, seen through one of its brokers."""

    def __init__(self, bootstrap: str) -> None:
        try:
            addresses = [Address(*each) for each in parse_bootstrap(bootstrap)]
        except ValueError as error:
            raise CommandFailed(f"--bootstrap: {error}.") from None
        self._connections: dict[Address, socket.socket] = {}
        self._bootstrap = self._first_open(addresses, bootstrap)

    def __enter__(self) -> Self:
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

    def ask(self, address: Address | None, api_key: int, body: Fields) -> Any:
        """The answer as the schemas read it; without an address, of the broker we are connected to."""
        there = address or self._bootstrap
        try:
            return requests.decode_answer(api_key, memoryview(self._exchange(there, api_key, body)))
        except TidelogError as error:
            raise CommandFailed(f"{there.host}:{there.port} does not answer as expected: {error}.") from None

    def _exchange(self, address: Address, api_key: int, body: Fields) -> bytes:
        try:
            connection = self._connect(address)
            connection.sendall(requests.encode_request(api_key, 1, CLIENT_ID, body))
            (size,) = struct.unpack(">i", _receive(connection, 4))
            return _receive(connection, size)
        except OSError as error:
            self._connections.pop(address, None)
            raise CommandFailed(
                f"The connection to {address.host}:{address.port} was lost: {error}."
            ) from None

    def metadata(self, *topics: str) -> Any:
        body = {"topics": [{"name": topic} for topic in topics], "allow_auto_topic_creation": False}
        return self.ask(None, METADATA, body)

    def brokers(self) -> dict[int, Address]:
        return {each.node_id: Address(each.host, each.port) for each in self.metadata().brokers}


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        data = connection.recv(size - len(received))
        if not data:
            raise ConnectionError("the broker closed it")
        received += data
    return bytes(received)


def check(code: int, message: str | None = None) -> None:
    """Fail with the broker's own words when its answer is an error."""
    if code:
        name = ErrorCode(code).name
        sentence = (message or name.replace("_", " ").lower()).rstrip(". ")
        raise CommandFailed(f"{sentence[:1].upper()}{sentence[1:]} ({name}).", name)
