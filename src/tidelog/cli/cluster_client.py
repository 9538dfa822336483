"""Requests that no client library has: a connection per broker, one question at a time, in the newest
version. Knows addresses and connections, not what the questions mean.
"""

import dataclasses
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tidelog.cli.client_config import client_config, is_given
from tidelog.cli.failure import CommandFailed
from tidelog.cli.nearby import cluster_ids
from tidelog.cli.reach import (
    CONNECT_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    Address,
    Silent,
    in_our_words,
    reachable,
    sought,
    unanswered,
)
from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import ClientError
from tidelog.client.settings import ClientSettings
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import requests
from tidelog.protocol.messages import Fields

METADATA, FIND_COORDINATOR = 3, 10
COORDINATOR_WITHIN_S = 1.5
COORDINATOR_POLL_S = 0.1


class ClusterClient:
    """A cluster, seen through one of its brokers."""

    def __init__(self, bootstrap: str) -> None:
        addresses = reachable(bootstrap)
        security = client_config(bootstrap).security
        self._settings = ClientSettings(
            tuple(addresses),
            client_id="tidelog-cli",
            tls=security.tls,
            sasl=security.sasl,
            request_timeout_ms=int(REQUEST_TIMEOUT_S * 1000),
            connect_timeout_ms=int(CONNECT_TIMEOUT_S * 1000),
        )
        self._connections: dict[Address, BrokerConnection] = {}
        self._silent: dict[Address, bool] = dict.fromkeys(addresses, False)
        self._bootstrap = self._first_open(addresses)
        if (directory := sought(bootstrap).directory) is not None:
            addresses = self._of_directory(addresses, directory)
            self._bootstrap = self._first_open(addresses)
        # Of one cluster, for libraries that choose among them.
        self.addresses = self._of_one_cluster(addresses, given=is_given(bootstrap))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def _first_open(self, addresses: list[Address]) -> Address:
        failure: OSError | None = None
        for address in addresses:
            try:
                self._connect(address)
                return address
            except OSError as error:
                failure = error
        reason = (failure.strerror or str(failure)).lower() if failure is not None else "no address"
        shown = ", ".join(map(str, addresses))
        raise CommandFailed(
            f"No broker answers at {shown} ({reason}); start one with `tidelog up`, or pass --bootstrap."
        )

    def _of_directory(self, addresses: list[Address], directory: Path) -> list[Address]:
        """Without those of a cluster that has got the ports of this directory's, which is down."""
        known = cluster_ids(directory)
        ids = {each: self._cluster_id(each) for each in addresses} if known else {}
        ours = [each for each in addresses if ids.get(each) is None or ids[each] in known]
        if ours:
            return ours
        raise CommandFailed(
            f"{addresses[0]} belongs to cluster {ids[addresses[0]]}, and not to the one in {directory}, "
            f"{' or '.join(sorted(known))}, which does not run. To ask the other one, pass --bootstrap "
            f"{addresses[0]}; `tidelog up --port PORT` starts this one at another port."
        )

    def _of_one_cluster(self, addresses: list[Address], *, given: bool) -> list[Address]:
        """Those of the cluster that we are connected to. Others are a failure if they were named: the port of
        a dead broker may belong to another cluster now, and which one a command changes must not be chance.
        """
        if len(addresses) == 1:
            return addresses
        ids = {each: self._cluster_id(each) for each in addresses}
        ours = ids[self._bootstrap]
        for address, other in ids.items():
            if given and other is not None and other != ours:
                raise CommandFailed(
                    f"{address} belongs to cluster {other}, and {self._bootstrap} to cluster {ours}; name "
                    "brokers of one cluster with --bootstrap."
                )
        return [each for each in addresses if ids[each] == ours]

    def _cluster_id(self, address: Address) -> str | None:
        """None: it does not say."""
        try:
            found = self.ask(address, METADATA, {"topics": [], "allow_auto_topic_creation": False})
        except CommandFailed:
            return None
        return str(found.cluster_id)

    def _connect(self, address: Address) -> BrokerConnection:
        connection = self._connections.get(address)
        if connection is None:
            if self.silent([address]):
                raise Silent("it accepts connections and does not answer")
            connection = self._connections[address] = _opened(address, self._settings)
        return connection

    def silent(self, addresses: Iterable[Address]) -> set[Address]:
        """Those that accept connections and do not answer. Found out once, for all at the same time: waiting
        for each would take a command minutes.
        """
        wanted = list(dict.fromkeys(addresses))
        unknown = [each for each in wanted if each not in self._silent]
        if unknown:
            failures = unanswered(unknown, tls=self._settings.tls)
            self._silent.update({each: isinstance(failures.get(each), Silent) for each in unknown})
        return {each for each in wanted if self._silent[each]}

    def unanswered(self, addresses: Sequence[Address]) -> dict[Address, OSError]:
        """Those that do not answer now, and why."""
        return unanswered(addresses, tls=self._settings.tls)

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

    def ask_quickly(self, api_key: int, body: Fields, timeout_s: float) -> Any:
        """The answer of the broker we are connected to, over a connection of its own, or a failure soon."""
        timeout_ms = int(timeout_s * 1000)
        settings = dataclasses.replace(
            self._settings, request_timeout_ms=timeout_ms, connect_timeout_ms=timeout_ms
        )
        request, version = requests.encode_body(api_key, body), requests.newest(api_key)
        try:
            with _opened(self._bootstrap, settings) as connection:
                flexible = requests.is_flexible(api_key)
                return requests.decode_body(
                    api_key, connection.call(api_key, version, request, flexible=flexible)
                )
        except (OSError, TidelogError) as error:
            raise CommandFailed(f"{self._bootstrap} does not answer: {error}.") from None

    def connected_brokers(self) -> list[int]:
        """The broker that we are connected to comes first; where its address is another one than it
        advertises, any of them may be it.
        """
        known = self.brokers()
        return sorted(known, key=lambda broker: known[broker] != self._bootstrap)

    def find_coordinator(self, kind: int, key: str, whose: str, topic: str) -> tuple[int, Address]:
        """The coordinator of a group or transactional id. Waits a moment for one: before the first group
        there is no topic for it. Without one that answers, a failure with the cause.
        """
        deadline = time.monotonic() + COORDINATOR_WITHIN_S
        while True:
            body = {"key_type": kind, "coordinator_keys": [key]}
            (found,) = self.ask(None, FIND_COORDINATOR, body).coordinators
            address = Address(found.host, found.port)
            if not found.error_code and not self.unanswered([address]):
                return found.node_id, address
            if time.monotonic() >= deadline:
                break
            time.sleep(COORDINATOR_POLL_S)
        name = ErrorCode(found.error_code).name if found.error_code else ""
        reason = name or f"broker {found.node_id} is down"
        raise CommandFailed(
            f"{whose} has no coordinator now ({reason}): the leader of its partition of {topic} is down. "
            "`tidelog cluster status` says what to start.",
            name,
        )

    def metadata(self, *topics: str) -> Any:
        body = {"topics": [{"name": topic} for topic in topics], "allow_auto_topic_creation": False}
        return self.ask(None, METADATA, body)

    def brokers(self) -> dict[int, Address]:
        return {each.node_id: Address(each.host, each.port) for each in self.metadata().brokers}


def _opened(address: Address, settings: ClientSettings) -> BrokerConnection:
    try:
        return BrokerConnection(*address, settings)
    except ClientError as error:  # A certificate or a password is refused; another broker would do the same.
        raise CommandFailed(in_our_words(error)) from None


def check(code: int, message: str | None = None) -> None:
    """Fail with the broker's own words when its answer is an error."""
    if code:
        name = ErrorCode(code).name
        sentence = (message or name.replace("_", " ").lower()).rstrip(". ")
        if sentence.partition(" ")[0].isalpha():  # not the name of a setting
            sentence = sentence[:1].upper() + sentence[1:]
        raise CommandFailed(f"{sentence} ({name}).", name)
