"""Server-sent events: every browser gets everything once, and then each change.

A message is encoded once for all browsers. One that does not keep up gets everything again instead of a
backlog that grows, and only once it reads again: a browser that reads nothing costs nothing.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

BACKLOG_MAX = 100
BROWSERS_MAX = 200  # at the same time; each gets every change
KEEP_ALIVE_S = 10.0
KEEP_ALIVE = b": still here\n\n"
RETRY = b"retry: 500\n\n"
END = b""  # The stream ends.
AGAIN = b":"  # Everything, as it is when the browser reads this.


def encode(message: dict[str, Any]) -> bytes:
    """One event. JSON has no line breaks outside of strings, and none unescaped in them."""
    return b"data: " + json.dumps(message, separators=(",", ":")).encode() + b"\n\n"


class Hub:
    def __init__(self, everything: Callable[[], dict[str, Any]]) -> None:
        self._everything = everything
        self._browsers: set[asyncio.Queue[bytes]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._browsers)

    @property
    def is_full(self) -> bool:
        return len(self._browsers) >= BROWSERS_MAX

    def send(self, message: dict[str, Any]) -> None:
        if not self._browsers:
            return
        data = encode(message)
        for queue in self._browsers:
            if queue.full():
                _empty(queue)
                queue.put_nowait(AGAIN)
            else:
                queue.put_nowait(data)

    def close(self) -> None:
        """End all streams: a page that stops would otherwise wait for its browsers, and then drop them."""
        self._is_closed = True
        for queue in self._browsers:
            _empty(queue)
            queue.put_nowait(END)

    async def stream(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(BACKLOG_MAX)
        queue.put_nowait(RETRY + encode(self._everything()))
        self._browsers.add(queue)
        try:
            while not self._is_closed:
                try:
                    data = await asyncio.wait_for(queue.get(), KEEP_ALIVE_S)
                except TimeoutError:
                    data = KEEP_ALIVE
                if data is AGAIN:
                    _empty(queue)  # Those changes are older than everything as it is now.
                    data = encode(self._everything())
                yield data
        finally:
            self._browsers.discard(queue)


def _empty(queue: asyncio.Queue[bytes]) -> None:
    while not queue.empty():
        queue.get_nowait()
