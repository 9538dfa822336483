"""What a connection needs to know of a request without its response."""

from typing import Protocol


class PendingRequest(Protocol):
    """A request of a client or of a node whose response is pending, for instance until there is data."""

    def cancel(self) -> None: ...

    def finish_now(self) -> None: ...
