"""How a client finds the coordinator of its group or transaction, and retries until it responds."""

from collections.abc import Callable
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.sim.clients.client import REQUEST_TIMEOUT_MS, Client, Reply, RequestCall

FIND_COORDINATOR = 10
GROUP, TRANSACTION = 0, 1

ASK_AGAIN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

Heard = Callable[[ErrorCode, Any], None]
"""The coordinator's final response: an error that retries cannot fix, or the result."""


class CoordinatorLink:
    def __init__(self, client: Client, kind: int, key: str) -> None:
        self._client = client
        self._kind = kind
        self._key = key
        self._coordinator = -1
        self.closed = False  # cancelled

    def ask(
        self,
        api_key: int,
        body: Callable[[], Fields],
        code_of: Callable[[Any], ErrorCode],
        heard: Heard,
        patience_ms: float = REQUEST_TIMEOUT_MS,
        version: int | None = None,
    ) -> None:
        """``code_of``: the error in a response. ``version``: of the request, by default the newest."""
        if self.closed:
            return

        def again() -> None:
            self._client.world.after(
                self._client.backoff_ms(),
                lambda: self.ask(api_key, body, code_of, heard, patience_ms, version),
            )

        def answered(reply: Reply) -> None:
            code = code_of(reply.body) if reply.body is not None else reply.error
            if code in ASK_AGAIN:
                if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    self._coordinator = -1
                again()
            elif not self.closed:
                heard(code, reply.body)

        if self._coordinator < 0:
            self._find(again)
        else:
            self._request(self._coordinator, api_key, body(), answered, patience_ms, version)

    def _find(self, done: Callable[[], None]) -> None:
        def found(reply: Reply) -> None:
            if reply.body is not None:
                [coordinator] = reply.body.coordinators
                self._coordinator = -1 if coordinator.error_code else coordinator.node_id
            done()

        body = {"key_type": self._kind, "coordinator_keys": [self._key]}
        self._request(self._client.any_broker(), FIND_COORDINATOR, body, found)

    def _request(
        self,
        broker: int,
        api_key: int,
        body: Fields,
        done: Callable[[Reply], None],
        patience_ms: float = REQUEST_TIMEOUT_MS,
        version: int | None = None,
    ) -> None:
        client = self._client
        call = RequestCall(client.client_id, client.next_number(), api_key, body, version)
        client.ask(broker, call, done, patience_ms)
