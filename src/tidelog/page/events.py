"""Server-sent events: every browser gets everything once, and then each change.

A message is encoded once for all browsers. One that does not keep up gets everything again instead of a
backlog that grows.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

BACKLOG_MAX = 100
KEEP_ALIVE_S = 10.0
KEEP_ALIVE = b": still here\n\n"
RETRY = b"retry: 500\n\n"


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

    def send(self, message: dict[str, Any]) -> None:
        if not self._browsers:
            return
        data = encode(message)
        for queue in self._browsers:
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(encode(self._everything()))
            else:
                queue.put_nowait(data)

    def close(self) -> None:
        """End all streams: a page that stops would otherwise wait for its browsers, and then drop them."""
        self._is_closed = True
        for queue in self._browsers:
            while not queue.empty():
                queue.get_nowait()
            queue.put_nowait(b"")

    async def stream(self) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes] = asyncio.Queue(BACKLOG_MAX)
        queue.put_nowait(RETRY + encode(self._everything()))
        self._browsers.add(queue)
        try:
            while not self._is_closed:
                try:
                    yield await asyncio.wait_for(queue.get(), KEEP_ALIVE_S)
                except TimeoutError:
                    yield KEEP_ALIVE
        finally:
            self._browsers.discard(queue)
