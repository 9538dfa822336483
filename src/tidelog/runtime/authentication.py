"""Logins of connections with Kafka's two SASL requests.

A connection has a :class:`Login` while not all of its requests may reach the handlers: until it has
authenticated where its listener requires that, from a handshake to the end of its exchange, and when its
session has expired. Otherwise it has none, so that requests of an authenticated connection cost nothing.

====== =================================== ================================================================
state  takes                               then
====== =================================== ================================================================
IDLE   SaslHandshake                       BEGUN
BEGUN  SaslAuthenticate, once or more      authenticated, and the login is gone; or FAILED
FAILED nothing                             the answer is sent after a pause, and the connection closed
====== =================================== ================================================================

ApiVersions passes in IDLE and BEGUN. All else passes only if the connection could be used before: by a node
on a listener without authentication, or by a client that authenticates again in time. What an exchange is
about is the business of an :class:`Offer`.
"""

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from tidelog.broker.requests.request import HangUp
from tidelog.errors import ErrorCode
from tidelog.protocol import sasl
from tidelog.protocol.messages import API_VERSIONS_KEY, name_of
from tidelog.protocol.wire import skip_tags
from tidelog.security.sasl import Login as Exchange
from tidelog.security.sasl import LoginRefused

Respond = Callable[[bytes], None]

REFUSED = "Authentication failed: invalid credentials"  # Clients are told no more than that.
SASL_APIS = frozenset({sasl.HANDSHAKE_KEY, sasl.AUTHENTICATE_KEY})


class State(Enum):
    IDLE = auto()
    BEGUN = auto()
    FAILED = auto()


class Offer(Protocol):
    """What a connection can log in to."""

    @property
    def mechanisms(self) -> tuple[str, ...]: ...

    @property
    def token_bytes_max(self) -> int: ...

    def begin(self, mechanism: str) -> Exchange:
        """``mechanism`` is one of the offered."""

    def accept(self, exchange: Exchange) -> int:
        """The exchange has succeeded. Returns how many milliseconds it counts for; 0: as long as the
        connection. Raises :class:`LoginRefused`, and ``HangUp``.
        """


class LoggingIn(Protocol):
    """A connection, as its login sees it."""

    def close(self, reason: str) -> None: ...

    def end(self) -> None: ...

    def hold(self) -> None: ...

    def resume(self) -> None: ...

    def logged_in(self, session_ms: int) -> None:
        """It has authenticated, and its requests are handled."""

    def login_failed(self, reason: str) -> None:
        """It is closed when the answer is sent."""


class Pace:
    """How long logins may take, and how long a failed one waits for its response, on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, within_ms: int, failure_pause_ms: int) -> None:
        self.loop = loop
        self.within_s = within_ms / 1000
        self.failure_pause_s = failure_pause_ms / 1000


class Login:
    __slots__ = ("_connection", "_deadline", "_exchange", "_is_usable", "_offer", "_pace", "_state")

    def __init__(self, connection: LoggingIn, offer: Offer, pace: Pace, *, is_usable: bool) -> None:
        """``is_usable``: other requests are handled meanwhile."""
        self._connection = connection
        self._offer = offer
        self._pace = pace
        self._is_usable = is_usable
        self._state = State.IDLE
        self._exchange: Exchange | None = None
        # Half a login and silence would otherwise keep a connection that has cost its owner nothing.
        self._deadline = pace.loop.call_later(pace.within_s, self._too_late)

    def passes(self, api_key: int) -> bool:
        """Whether a request is handled as if there were no login."""
        if self._state is State.FAILED or api_key in SASL_APIS:
            return False
        return self._is_usable or api_key == API_VERSIONS_KEY

    def expire(self) -> None:
        """The session has ended: nothing else is handled until the client has authenticated again."""
        self._is_usable = False

    def cancel(self) -> None:
        """The connection is closed."""
        self._deadline.cancel()

    def _too_late(self) -> None:
        self._connection.close(f"it did not authenticate within {self._pace.within_s:g} s")

    def take(
        self, request: memoryview, position: int, header: tuple[int, int, int], respond: Respond
    ) -> None:
        """A request that does not pass. ``position`` is that of its body; ``header``: API key, version and
        correlation id. Raises ``HangUp`` and ``Malformed``.
        """
        api_key, version, correlation_id = header
        if self._state is State.FAILED:
            return
        if api_key == sasl.HANDSHAKE_KEY and self._state is State.IDLE:
            self._handshake(sasl.decode_handshake(request, position), correlation_id, respond)
        elif api_key == sasl.AUTHENTICATE_KEY and self._exchange is not None:
            if version >= sasl.FLEXIBLE_FROM:
                position = skip_tags(request, position)  # of the header
            token = sasl.decode_authenticate(request, position, version)
            self._step(self._exchange, token, version, correlation_id, respond)
        else:
            raise HangUp(f"{name_of(api_key)} before it has authenticated")

    def _handshake(self, mechanism: str, correlation_id: int, respond: Respond) -> None:
        offered = self._offer.mechanisms
        if mechanism in offered:
            self._exchange = self._offer.begin(mechanism)
            self._state = State.BEGUN
            respond(sasl.encode_handshake_response(correlation_id, ErrorCode.NONE, offered))
            return
        error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._fail(
            f"the SASL mechanism {mechanism[:40]!r} is not offered",
            sasl.encode_handshake_response(correlation_id, error, offered),
            respond,
        )

    def _step(
        self, exchange: Exchange, token: bytes, version: int, correlation_id: int, respond: Respond
    ) -> None:
        session_ms = 0
        try:
            if len(token) > self._offer.token_bytes_max:
                raise LoginRefused(f"a token of {len(token)} bytes")
            response = exchange.step(token)
            if exchange.user is not None:
                session_ms = self._offer.accept(exchange)
        except LoginRefused as refusal:
            failed = sasl.Authenticated(ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED, b"")
            self._fail(
                f"authentication failed: {refusal.reason}",
                sasl.encode_authenticate_response(correlation_id, version, failed),
                respond,
            )
            return
        if exchange.user is not None:
            self._deadline.cancel()
            self._connection.logged_in(session_ms)
        told = sasl.Authenticated(ErrorCode.NONE, "", response, session_ms)
        respond(sasl.encode_authenticate_response(correlation_id, version, told))

    def _fail(self, reason: str, response: bytes, respond: Respond) -> None:
        """Who guesses passwords waits for each response, and needs a new connection for the next."""
        self._state = State.FAILED
        self._deadline.cancel()
        self._connection.hold()

        self._connection.login_failed(reason)

        def tell() -> None:
            respond(response)
            self._connection.end()

        self._pace.loop.call_later(self._pace.failure_pause_s, tell)
