"""One connection to one broker: questions in the newest version that both sides know.

Owns reconnecting: a question that fails closes the connection, and the next one opens another. Not
thread-safe; the callers take turns.
"""

from typing import Any, Self

from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import ClientError
from tidelog.client.settings import ClientSettings
from tidelog.errors import ErrorCode, TidelogError
from tidelog.page.asking import connecting
from tidelog.protocol import requests
from tidelog.protocol.messages import Fields, known_versions

Address = tuple[str, int]


class NotServed(ConnectionError):
    """The broker does not know the request, or only versions of it that are too old."""


def name_of(code: int) -> str:
    """Kafka's name of an error."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


class Link:
    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        timeout_ms = int(timeout_s * 1000)
        self._settings = ClientSettings(
            (address,),
            client_id="tidelog-page",
            tls=connecting.security().tls,
            sasl=connecting.security().sasl,
            request_timeout_ms=timeout_ms,
            connect_timeout_ms=timeout_ms,
        )
        self._connection: BrokerConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def serves(self, api: int, version: int) -> bool:
        try:
            return self._open().versions().serves(api, version)
        except OSError:
            self.close()
            raise

    def call(self, api: int, version: int, body: bytes) -> memoryview:
        """A request and a response that the caller encodes and decodes."""
        return self._exchange(api, version, body, None)

    def ask(self, api: int, body: Fields, newest: int | None = None) -> Any:
        """The response as the schemas read it; ``newest``: the newest version that the caller understands."""
        version = self._version(api, newest)
        try:
            request = requests.encode_body(api, body, version)
            response = self._exchange(api, version, request, requests.is_flexible(api, version))
            return requests.decode_body(api, response, version=version)
        except TidelogError as error:
            self.close()
            raise ConnectionError(str(error)) from None

    def _version(self, api: int, newest: int | None) -> int:
        oldest, known = known_versions(api)
        try:
            versions = self._open().versions()
        except OSError:
            self.close()
            raise
        version = versions.newest_common(api, oldest, known if newest is None else min(known, newest))
        if version is None:
            raise NotServed(f"{self.address[0]}:{self.address[1]} does not serve request {api}")
        return version

    def _exchange(self, api: int, version: int, body: bytes, flexible: bool | None) -> memoryview:
        try:
            return self._open().call(api, version, body, flexible=flexible)
        except OSError:
            self.close()
            raise

    def _open(self) -> BrokerConnection:
        if self._connection is None:
            try:
                self._connection = BrokerConnection(*self.address, self._settings)
            except ClientError as error:  # A certificate or a password is refused, by us or by the broker.
                raise ConnectionError(str(error)) from None
        return self._connection
