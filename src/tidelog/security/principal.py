"""Who sent a request, as the connection's authentication found out."""

from typing import NamedTuple


class Principal(NamedTuple):
    """Kafka's notation is ``User:alice``."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


USER = "User"
ANONYMOUS = Principal(USER, "ANONYMOUS")  # of a listener without authentication
