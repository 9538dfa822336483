"""Responses that become ready together are sent together.

One fetch of a follower may commit a hundred records, and each of them completes a Produce request of a
client. Sent one by one, every response would cost a system call and wake the client. So while the requests of
a node's connection are handled, other connections only register that they have something to send.
"""

from typing import Protocol


class Sending(Protocol):
    def send_ready(self) -> None: ...


class Gathering:
    __slots__ = ("_depth", "_ready")

    def __init__(self) -> None:
        self._depth = 0
        self._ready: dict[Sending, None] = {}

    def begin(self) -> None:
        self._depth += 1

    def takes(self, connection: Sending) -> bool:
        """Whether the connection's responses are sent when the node's requests have been handled. If not, the
        connection sends them itself.
        """
        if self._depth:
            self._ready[connection] = None
        return self._depth > 0

    def end(self) -> None:
        """Send the responses. This may let a connection take further requests: ``begin`` and ``end`` may be
        called meanwhile.
        """
        self._depth -= 1
        while self._ready and not self._depth:
            connection = next(iter(self._ready))
            del self._ready[connection]
            connection.send_ready()
