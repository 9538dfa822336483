"""Requests between brokers, and rare requests of clients: over the simulated network to the handlers, as if
they came in a frame.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from tidelog.broker.broker import Broker
from tidelog.broker.delivery import deliver
from tidelog.broker.links.links import Done, LocalLinks
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields

TIMEOUT_MS = 10_000


class LinkAsk(NamedTuple):
    sender: int
    number: int
    api_key: int
    body: Fields
    process: object = None  # of the sender


class LinkGot(NamedTuple):
    sender: int
    number: int
    answer: Any  # the entity, or a TidelogError
    process: object = None  # that asked: the connection of an earlier one is closed


class Send(Protocol):
    def __call__(self, to: int, message: Any, *, in_order: bool) -> None: ...


class SimLinks(LocalLinks):
    def __init__(self, broker: Broker, send: Send, controller: Callable[[], int]) -> None:
        super().__init__(broker.broker_id, broker.services, partial(deliver, broker))
        self._send = send
        self._controller = controller
        self._number = 0
        self._waiting: dict[int, tuple[int, Done]] = {}  # question → receiver, and callback

    def controller(self) -> int:
        return self._controller()

    def request(self, broker_id: int, api_key: int, body: Fields, done: Done) -> None:
        if broker_id == self._me:
            super().request(broker_id, api_key, body, done)
            return
        self._number += 1
        number = self._number
        self._waiting[number] = broker_id, done
        self._send(broker_id, LinkAsk(self._me, number, api_key, body, self), in_order=True)
        self._services.later(TIMEOUT_MS, lambda: self._fail(number, ErrorCode.REQUEST_TIMED_OUT))

    def asked(self, ask: LinkAsk) -> None:
        """A request of another broker."""

        def done(answer: Any) -> None:
            self._send(ask.sender, LinkGot(self._me, ask.number, answer, ask.process), in_order=True)

        super().request(self._me, ask.api_key, ask.body, done)

    def answered(self, got: LinkGot) -> None:
        if got.process is not self:
            return  # Its number may be that of another question by now.
        waiting = self._waiting.pop(got.number, None)
        if waiting is not None:
            waiting[1](got.answer)

    def lost(self, peer: int) -> None:
        for number in [number for number, (asked, _) in self._waiting.items() if asked == peer]:
            self._fail(number, ErrorCode.NETWORK_EXCEPTION)

    def _fail(self, number: int, code: ErrorCode) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting[1](TidelogError(f"broker {waiting[0]} did not answer", code))
