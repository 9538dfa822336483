"""Responses that become ready together are sent together.

One fetch of a follower may commit a hundred records, and each of them completes a request of a client. Sent
one by one, every response would cost a system call and wake the client. So while the requests of a node's
connection are handled, other connections only note that they have something to send.
"""

import logging
from typing import Protocol

logger = logging.getLogger(__name__)


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
        """Whether the connection's responses are sent at the end of the present requests. If not, it sends
        them itself.
        """
        if self._depth:
            self._ready[connection] = None
        return self._depth > 0

    def end(self) -> None:
        """Send them. A connection that is continued by that may handle requests, which begin and end, too.
        What goes wrong with one must not keep the others waiting, nor end the connection of the node.
        """
        self._depth -= 1
        while self._ready and not self._depth:
            connection = next(iter(self._ready))
            del self._ready[connection]
            try:
                connection.send_ready()
            except Exception:
                logger.exception("responses that one commit completed cannot be sent")
