"""Responses that become ready together are sent together.

One fetch of a follower may commit a hundred records, and each of them completes a Produce request of a
client. Sent one by one, every response would cost a system call and wake the client. So while the requests of
a node's connection are handled, other connections only register that they have something to send. Clients
decide how many connections that are, so what takes longer than a slice is sent in the next turns of the event
loop.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Protocol

logger = logging.getLogger(__name__)

SLICE_S = 0.003


class Sending(Protocol):
    def send_ready(self) -> None: ...


class Gathering:
    __slots__ = ("_depth", "_is_scheduled", "_ready", "_soon")

    def __init__(self, soon: Callable[[Callable[[], None]], object]) -> None:
        """``soon``: calls back in the next turn of the event loop."""
        self._soon = soon
        self._depth = 0
        self._ready: OrderedDict[Sending, None] = OrderedDict()  # A dict finds its first key slowly.
        self._is_scheduled = False

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
        called meanwhile. What goes wrong with one connection must not keep the others waiting, nor end the
        connection of the node.
        """
        self._depth -= 1
        if self._ready and not self._depth:
            self._send()

    def _send(self) -> None:
        until_s = monotonic() + SLICE_S
        while self._ready and not self._depth:
            connection, _ = self._ready.popitem(last=False)
            try:
                connection.send_ready()
            except Exception:
                logger.exception("responses that one commit completed cannot be sent")
            if monotonic() >= until_s:
                break
        if self._ready and not self._is_scheduled:
            self._is_scheduled = True
            self._soon(self._send_rest)

    def _send_rest(self) -> None:
        self._is_scheduled = False
        self._send()
