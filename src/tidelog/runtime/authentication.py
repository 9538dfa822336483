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
from typing import NamedTuple, Protocol

from tidelog.broker.requests.request import HangUp
from tidelog.errors import ErrorCode
from tidelog.protocol import sasl
from tidelog.protocol.messages import API_VERSIONS_KEY, name_of
from tidelog.protocol.wire import skip_tags
from tidelog.security.sasl import LoginRefused, SaslLogin

Respond = Callable[[bytes], None]
Compute = Callable[[Callable[[], object], Callable[[object], None]], None]

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

    def begin(self, mechanism: str) -> SaslLogin:
        """``mechanism`` is one of the offered."""

    def accept(self, exchange: SaslLogin) -> int:
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


class Header(NamedTuple):
    """Of a request."""

    api_key: int
    version: int
    correlation_id: int


class Pace:
    """How long logins may take, and how long a failed one waits for its response, on one loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        within_ms: int,
        failure_pause_ms: int,
        compute: Compute | None = None,
    ) -> None:
        """``compute`` runs slow steps in a thread; without it they hold the loop."""
        self.loop = loop
        self.compute = compute
        self.within_s = within_ms / 1000
        self.failure_pause_s = failure_pause_ms / 1000


ChooseOffer = Callable[[str | None], Offer]
"""What a connection can log in to, by the client id of its handshake."""


class Login:
    __slots__ = (
        "_choose", "_connection", "_deadline", "_exchange", "_is_usable", "_offer", "_pace", "_state",
    )  # fmt: skip

    def __init__(
        self,
        connection: LoggingIn,
        choose: ChooseOffer,
        pace: Pace,
        *,
        is_usable: bool,
        has_deadline: bool = True,
    ) -> None:
        """``is_usable``: other requests are handled meanwhile."""
        self._connection = connection
        self._choose = choose
        self._pace = pace
        self._is_usable = is_usable
        self._state = State.IDLE
        self._offer: Offer | None = None
        self._exchange: SaslLogin | None = None
        self._deadline: asyncio.TimerHandle | None = None
        if has_deadline:
            self._limit_time()

    def _limit_time(self) -> None:
        """Half a login and silence would otherwise keep a connection that has cost its owner nothing."""
        if self._deadline is None:
            self._deadline = self._pace.loop.call_later(self._pace.within_s, self._too_late)

    def passes(self, api_key: int) -> bool:
        """Whether a request is handled as if there were no login."""
        if self._state is State.FAILED or api_key in SASL_APIS:
            return False
        return self._is_usable or api_key == API_VERSIONS_KEY

    def expire(self) -> None:
        """The session has ended: nothing else is handled until the client has authenticated again."""
        self._is_usable = False

    def cancel(self) -> None:
        """The connection is closed, or has authenticated."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._connection.close(f"it did not authenticate within {self._pace.within_s:g} s")

    def take(self, request: memoryview, header: Header, client_size: int, respond: Respond) -> None:
        """A request that does not pass. Raises ``HangUp`` and ``Malformed``."""
        if self._state is State.FAILED:
            return
        position = 10 + max(client_size, 0)
        if header.api_key == sasl.HANDSHAKE_KEY and self._state is State.IDLE:
            self._limit_time()
            client_id = client_id_of(request, client_size)
            self._handshake(sasl.decode_handshake(request, position), client_id, header, respond)
        elif header.api_key == sasl.AUTHENTICATE_KEY and self._exchange is not None:
            if header.version >= sasl.FLEXIBLE_FROM:
                position = skip_tags(request, position)  # of the header
            token = sasl.decode_authenticate(request, position, header.version)
            self._authenticate(self._exchange, token, header, respond)
        else:
            raise HangUp(f"{name_of(header.api_key)} before it has authenticated")

    def _handshake(self, mechanism: str, client_id: str | None, header: Header, respond: Respond) -> None:
        offer = self._offer = self._choose(client_id)
        if mechanism in offer.mechanisms:
            self._exchange = offer.begin(mechanism)
            self._state = State.BEGUN
            respond(sasl.encode_handshake_response(header.correlation_id, ErrorCode.NONE, offer.mechanisms))
            return
        error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        self._fail(
            f"the SASL mechanism {mechanism[:40]!r} is not offered",
            sasl.encode_handshake_response(header.correlation_id, error, offer.mechanisms),
            respond,
        )

    def _authenticate(self, exchange: SaslLogin, token: bytes, header: Header, respond: Respond) -> None:
        compute = self._pace.compute
        offer = self._offer
        if offer is not None and len(token) > offer.token_bytes_max:
            self._refuse(LoginRefused(f"a token of {len(token)} bytes"), header, respond)
        elif not exchange.is_slow or compute is None:
            self._stepped(exchange, _step(exchange, token), header, respond)
        else:
            self._connection.hold()

            def step() -> object:
                """Not for a connection that has been closed: others would wait for it."""
                return None if self._deadline is None else _step(exchange, token)

            def stepped(outcome: object) -> None:
                if self._deadline is not None:  # Otherwise the connection has been closed meanwhile.
                    self._stepped(exchange, outcome, header, respond)
                self._connection.resume()

            compute(step, stepped)

    def _stepped(self, exchange: SaslLogin, outcome: object, header: Header, respond: Respond) -> None:
        """``outcome``: the server's next message, or why the login fails."""
        if not isinstance(outcome, bytes):
            refusal = (
                outcome
                if isinstance(outcome, LoginRefused)
                else LoginRefused(f"an internal error ({type(outcome).__name__})")
            )
            self._refuse(refusal, header, respond)
            return
        session_ms = 0
        if exchange.user is not None and self._offer is not None:
            try:
                session_ms = self._offer.accept(exchange)
            except LoginRefused as refusal:
                self._refuse(refusal, header, respond)
                return
            except HangUp as error:
                self._connection.close(error.message)
                return
            self.cancel()
            self._connection.logged_in(session_ms)
        told = sasl.Authenticated(ErrorCode.NONE, "", outcome, session_ms)
        respond(sasl.encode_authenticate_response(header.correlation_id, header.version, told))

    def _refuse(self, refusal: LoginRefused, header: Header, respond: Respond) -> None:
        failed = sasl.Authenticated(ErrorCode.SASL_AUTHENTICATION_FAILED, REFUSED, b"")
        self._fail(
            f"authentication failed: {refusal.reason}",
            sasl.encode_authenticate_response(header.correlation_id, header.version, failed),
            respond,
        )

    def _fail(self, reason: str, response: bytes, respond: Respond) -> None:
        """Who guesses passwords waits for each response, and needs a new connection for the next."""
        self._state = State.FAILED
        self.cancel()
        self._connection.hold()
        self._connection.login_failed(reason)

        def tell() -> None:
            respond(response)
            self._connection.end()

        self._pace.loop.call_later(self._pace.failure_pause_s, tell)


def client_id_of(request: memoryview, size: int) -> str | None:
    """From a request's header. ``size``: what the header says."""
    return str(request[10 : 10 + size], "utf-8", "replace") if size >= 0 else None


def _step(exchange: SaslLogin, token: bytes) -> object:
    try:
        return exchange.step(token)
    except LoginRefused as refusal:
        return refusal
