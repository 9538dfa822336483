"""The server's side of PLAIN (RFC 4616): the client sends its password as it is."""

from collections.abc import Callable

from tidelog.security.sasl import LoginRefused

NAME = "PLAIN"
MESSAGE_BYTES_MAX = 1024


class PlainLogin:
    """One login. Its step takes as long as the check of a password."""

    is_slow = True

    def __init__(self, is_password: Callable[[str, str], bool]) -> None:
        """``is_password``: whether a user has this password."""
        self._is_password = is_password
        self.user: str | None = None
        self.expires_ms: int | None = None

    def step(self, message: bytes) -> bytes:
        if len(message) > MESSAGE_BYTES_MAX:
            raise LoginRefused(f"a PLAIN message of {len(message)} bytes")
        try:
            acting_as, user, password = message.decode().split("\0")
        except ValueError:
            raise LoginRefused("an invalid PLAIN message") from None
        if not user or not password:
            raise LoginRefused("an invalid PLAIN message")
        if acting_as not in ("", user):
            raise LoginRefused("the client wants to act as another user", user)
        if not self._is_password(user, password):
            raise LoginRefused(f"no user {user!r} with this password", user)
        self.user = user
        return b""
