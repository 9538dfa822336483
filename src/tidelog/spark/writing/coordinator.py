"""Requests to the coordinator of a transaction or a group.

Owns finding it, retrying when it moved, loads or is busy, and the time that may take. The caller interprets
responses: every error that is not about the coordinator is returned.
"""

from collections.abc import Callable
from typing import TypeVar

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster, Patience
from tidelog.client.errors import error_name, is_retriable
from tidelog.errors import ErrorCode
from tidelog.spark.writing import messages

T = TypeVar("T")

RETRIED: frozenset[int] = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})


class Coordinators:
    """The last known coordinators of transactions and groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._addresses: dict[tuple[int, str], tuple[str, int]] = {}

    def ask(
        self,
        kind: int,
        key: str,
        api: int,
        version: int,
        body: bytes,
        parse: Callable[[memoryview], T],
        error_of: Callable[[T], int],
        retried: frozenset[int] = RETRIED,
    ) -> T:
        """The coordinator's response, whose error, if any, would be the same a moment later. ``retried``:
        errors of a coordinator that stays the same.
        """
        patience = self._cluster.patience()
        while True:
            address = self.address(kind, key, patience)
            try:
                response = parse(self._cluster.connection(address).call(api, version, body))
            except OSError as error:
                self._forget(address)
                patience.pause(error)
                continue
            code = error_of(response)
            if code not in retried and (code in RETRIED or not is_retriable(code)):
                return response
            if code not in retried:
                self._addresses.pop((kind, key), None)
            patience.pause(f"the coordinator of {key} answers {error_name(code)}")

    def address(self, kind: int, key: str, patience: Patience | None = None) -> tuple[str, int]:
        patience = patience or self._cluster.patience()
        while (kind, key) not in self._addresses:
            body = messages.find_coordinator_request(key, kind)
            version = messages.VERSIONS[Api.FIND_COORDINATOR]
            error, address = messages.coordinator(
                self._cluster.ask(Api.FIND_COORDINATOR, version, body, patience)
            )
            if error:
                # The first request creates the topic of transactions or groups.
                patience.pause(f"no coordinator of {key}: {error_name(error)}")
            else:
                self._addresses[kind, key] = address
        return self._addresses[kind, key]

    def _forget(self, address: tuple[str, int]) -> None:
        self._cluster.drop_address(address)
        self._addresses = {key: at for key, at in self._addresses.items() if at != address}
