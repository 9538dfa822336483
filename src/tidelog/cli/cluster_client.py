"""Requests that no client library has: a connection per broker, one question at a time, in the newest
version. Knows addresses and connections, not what the questions mean.
"""

from types import TracebackType
from typing import Any, NamedTuple, Self

from tidelog.cli.client import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S
from tidelog.cli.failure import CommandFailed
from tidelog.client.connection import BrokerConnection
from tidelog.client.settings import ClientSettings, parse_bootstrap
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import requests
from tidelog.protocol.messages import Fields

METADATA = 3


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
        self._settings = ClientSettings(
            tuple(addresses),
            client_id="tidelog-cli",
            request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
            connect_timeout_ms=int(CONNECT_TIMEOUT_S * 1000),
        )
        self._connections: dict[Address, BrokerConnection] = {}
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
            f"No broker answers at {bootstrap} ({reason}); start one with `tidelog up`, or pass --bootstrap."
        )

    def _connect(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = BrokerConnection(*address, self._settings)
        return connection

    # -- asking ------------------------------------------------------------------------

    def ask(self, address: Address | None, api_key: int, body: Fields) -> Any:
        """The answer as the schemas read it; without an address, of the broker we are connected to."""
        there = address or self._bootstrap
        try:
            return requests.decode_body(api_key, self.exchange(there, api_key, body))
        except TidelogError as error:
            raise CommandFailed(f"{there.host}:{there.port} does not answer as expected: {error}.") from None

    def exchange(self, address: Address, api_key: int, body: Fields) -> memoryview:
        """The body of the answer, as it came."""
        request, version = requests.encode_body(api_key, body), requests.newest(api_key)
        try:
            connection = self._connect(address)
            return connection.call(api_key, version, request, flexible=requests.is_flexible(api_key))
        except OSError as error:
            if (broken := self._connections.pop(address, None)) is not None:
                broken.close()
            raise CommandFailed(
                f"The connection to {address.host}:{address.port} was lost: {error}."
            ) from None

    def metadata(self, *topics: str) -> Any:
        body = {"topics": [{"name": topic} for topic in topics], "allow_auto_topic_creation": False}
        return self.ask(None, METADATA, body)

    def brokers(self) -> dict[int, Address]:
        return {each.node_id: Address(each.host, each.port) for each in self.metadata().brokers}


def check(code: int, message: str | None = None) -> None:
    """Fail with the broker's own words when its answer is an error."""
    if code:
        name = ErrorCode(code).name
        sentence = (message or name.replace("_", " ").lower()).rstrip(". ")
        raise CommandFailed(f"{sentence[:1].upper()}{sentence[1:]} ({name}).", name)
