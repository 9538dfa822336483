"""Allocates producer ids from a block that the controller has reserved in the metadata log.

The rest of a block is discarded when the broker stops, so that no id is allocated twice.
"""

from collections import deque
from typing import Any

from tidelog.broker.future import Future
from tidelog.broker.links.ports import BrokerPorts
from tidelog.broker.links.to_controller import ask_controller
from tidelog.errors import ErrorCode, TidelogError

ALLOCATE_PRODUCER_IDS = 67

Grant = int | TidelogError
"""A producer id, or the error if none is available."""


class ProducerIds:
    def __init__(self, broker: BrokerPorts) -> None:
        self._broker = broker
        self._block = range(0)
        self._pending: deque[Future[Grant]] = deque()
        self._reserving = False

    def next(self) -> Future[Grant]:
        future: Future[Grant] = Future()
        self._pending.append(future)
        self._serve()
        return future

    def _serve(self) -> None:
        while self._pending and self._block:
            first, self._block = self._block[0], self._block[1:]
            self._pending.popleft().complete(first)
        if self._pending and not self._reserving:
            self._reserving = True
            body = {"broker_id": self._broker.broker_id}
            ask_controller(self._broker, ALLOCATE_PRODUCER_IDS, body, self._reserved)

    def _reserved(self, response: Any) -> None:
        self._reserving = False
        if isinstance(response, TidelogError):
            self._refuse_all(response)
        elif response.error_code:
            code = ErrorCode(response.error_code)
            self._refuse_all(TidelogError("the controller allocated no producer ids", code))
        else:
            start = response.producer_id_start
            self._block = range(start, start + response.producer_id_len)
            self._serve()

    def _refuse_all(self, refusal: TidelogError) -> None:
        pending, self._pending = self._pending, deque()
        for future in pending:
            future.complete(refusal)
