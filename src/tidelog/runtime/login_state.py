"""Whether one connection has to log in, and how long its login counts."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.runtime.logins import Connected, Logins


class LoginState:
    __slots__ = ("_expiry", "_logins", "login")

    def __init__(self, logins: "Logins", connection: "Connected") -> None:
        self._logins = logins
        self.login = logins.first(connection)  # while not all requests may be handled
        self._expiry: asyncio.TimerHandle | None = None  # when the client has to authenticate again

    def begin_again(self, connection: "Connected", client_id: str | None) -> bool:
        """A handshake of a connection that can be used already. Returns whether there is a login now."""
        self.login = self._logins.later(connection, client_id)
        return self.login is not None

    def succeeded(self, connection: "Connected", session_ms: int) -> None:
        """``session_ms``: how long the login counts; 0: as long as the connection."""
        self.close()
        if session_ms:
            loop = self._logins.pace.loop
            self._expiry = loop.call_later(session_ms / 1000, self._expired, connection)

    def _expired(self, connection: "Connected") -> None:
        if self.login is None:
            self.login = self._logins.expired(connection)
        else:
            self.login.expire()

    def close(self) -> None:
        """The connection is closed, or has authenticated."""
        if self.login is not None:
            self.login.cancel()
            self.login = None
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
