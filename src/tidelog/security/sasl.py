"""What all SASL mechanisms have in common on the server's side."""

from typing import Protocol


class LoginRefused(Exception):
    """``reason`` is for the broker's log. Clients are told only that their credentials are invalid: anything
    more would help to guess them.
    """

    def __init__(self, reason: str, user: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.user = user  # whom the client claims to be, if that is known


class SaslLogin(Protocol):
    """One login by one mechanism: PLAIN, SCRAM or OAUTHBEARER."""

    @property
    def is_slow(self) -> bool:
        """Whether a step takes milliseconds, and is for a thread."""

    @property
    def expires_ms(self) -> int | None:
        """When it ceases to count, in milliseconds since 1970; None: never."""

    def step(self, message: bytes) -> bytes:
        """The answer to the client's next message. Raises :class:`LoginRefused`."""

    @property
    def user(self) -> str | None:
        """Who the client is, once it has proved that."""
