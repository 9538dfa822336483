"""Requests of this broker to other brokers, over the nodes' connections."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.delivery import deliver
from tidelog.broker.links.links import Done, LocalLinks
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol import requests
from tidelog.protocol.messages import Fields, name_of
from tidelog.protocol.wire import Malformed
from tidelog.runtime.peers import names
from tidelog.runtime.peers.channel import Channel
from tidelog.runtime.peers.peers import REQUESTS, WirePeers
from tidelog.services import Timer

TIMEOUT_MS = 10_000


class WireLinks(LocalLinks):
    def __init__(
        self, broker: Broker, peers: WirePeers, controller: Callable[[], int], timeout_ms: int = TIMEOUT_MS
    ) -> None:
        super().__init__(broker.broker_id, broker.services, partial(deliver, broker))
        self._peers = peers
        self._controller = controller
        self._timeout_ms = timeout_ms

    def controller(self) -> int:
        return self._controller()

    def request(self, broker_id: int, api_key: int, body: Fields, done: Done) -> None:
        if broker_id == self._me:
            super().request(broker_id, api_key, body, done)
            return
        channel = self._peers.channel(broker_id, REQUESTS)
        correlation_id = channel.next_correlation_id()
        client_id = names.client_id(self._me, broker_id)
        frame = requests.encode_request(api_key, correlation_id, client_id, body)
        question = LinkQuestion(channel, correlation_id, api_key, done)
        question.timer = self._services.later(self._timeout_ms, question.timed_out)
        channel.send(correlation_id, frame, question)


class LinkQuestion:
    """Completed once: by the response, by the loss of the connection, or by a timeout."""

    __slots__ = ("_api_key", "_channel", "_correlation_id", "_done", "timer")

    def __init__(self, channel: Channel, correlation_id: int, api_key: int, done: Done) -> None:
        self._channel = channel
        self._correlation_id = correlation_id
        self._api_key = api_key
        self._done: Done | None = done
        self.timer: Timer | None = None

    def answered(self, response: memoryview) -> None:
        try:
            decoded = requests.decode_response(self._api_key, response)
        except Malformed as error:
            self._fail(ErrorCode.NETWORK_EXCEPTION, error.message)
            raise
        self._finish(decoded)

    def lost(self, *, sent: bool) -> None:
        if sent:
            self._fail(ErrorCode.NETWORK_EXCEPTION, "the connection broke before the response")
        else:
            self._fail(ErrorCode.BROKER_NOT_AVAILABLE, "there is no connection")

    def timed_out(self) -> None:
        self._channel.forget(self._correlation_id)
        self._fail(ErrorCode.REQUEST_TIMED_OUT, "no response in time")

    def _fail(self, code: ErrorCode, reason: str) -> None:
        asked = f"{name_of(self._api_key)} to node {self._channel.peer}"
        self._finish(TidelogError(f"{asked}: {reason}", code))

    def _finish(self, response: Any) -> None:
        done, self._done = self._done, None
        if done is not None:
            if self.timer is not None:
                self.timer.cancel()
            done(response)
