"""The playground's process from the page's side: started when a browser opens it, and ended with the page.

Owns the pipe to it. What its commands and snapshots mean is the lab's matter and the browser's; here they are
passed on. The newest snapshots are kept, so that a browser that comes later sees the same course.
"""

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

logger = logging.getLogger(__name__)

LINE_BYTES_MAX = 1 << 20
RESPONSE_S = 90.0
END_S = 5.0
POINTS_MAX = 600  # of each load: five minutes
PENDING_MAX = 32  # commands without an answer


class PlaygroundFailed(Exception):
    """It was not done; the message is a sentence."""


class Playground:
    def __init__(self, command: Sequence[str], send: Callable[[dict[str, Any]], None]) -> None:
        """``command`` starts the process; ``send`` takes what is for all browsers."""
        self._command = tuple(command)
        self._send = send
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._pending: dict[int, asyncio.Future[str]] = {}
        self._next = 1
        self._snapshot: dict[str, Any] = {}
        self._points: dict[str, deque[Any]] = {}

    def everything(self) -> dict[str, Any]:
        """For a browser that has just come; without what is empty before it was opened."""
        if not self._snapshot:
            return {}
        return self._snapshot | {"history": {key: list(points) for key, points in self._points.items()}}

    async def open(self) -> None:
        async with self._starting:
            if self._process is not None:
                return
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=LINE_BYTES_MAX,
                start_new_session=True,  # Ctrl-C comes to the page alone, which ends it in order.
            )
            self._reader = asyncio.create_task(self._read(self._process))

    async def act(self, command: Mapping[str, Any]) -> str:
        """What was done, in a sentence."""
        if len(self._pending) >= PENDING_MAX:
            raise PlaygroundFailed("Too many commands wait for an answer.")
        await self.open()
        process = self._process
        if process is None or process.stdin is None:
            raise PlaygroundFailed("The playground does not run.")
        number, self._next = self._next, self._next + 1
        future = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            process.stdin.write(json.dumps({**command, "id": number}).encode() + b"\n")
            await process.stdin.drain()
            return await asyncio.wait_for(future, RESPONSE_S)
        except TimeoutError:
            raise PlaygroundFailed(f"There was no answer within {RESPONSE_S:.0f} s.") from None
        except ConnectionError:
            raise PlaygroundFailed("The playground has ended; try again.") from None
        finally:
            self._pending.pop(number, None)

    async def stop(self) -> None:
        """Its loads end, and nothing stays frozen."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if self._reader is not None:
            self._reader.cancel()

    # --- what it says -------------------------------------------------------------------------------------

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                with contextlib.suppress(ValueError):
                    self._take(json.loads(line))
        except ValueError:  # a line without an end
            logger.error("the playground says too much at once; it is ended")
            process.kill()
        finally:
            if self._process is process:
                self._process = None  # The next command starts another one.
            for pending in self._pending.values():
                if not pending.done():
                    pending.set_exception(PlaygroundFailed("The playground has ended; try again."))

    def _take(self, message: dict[str, Any]) -> None:
        if "answer" in message:
            pending = self._pending.get(message["answer"])
            if pending is not None and not pending.done():
                if "error" in message:
                    pending.set_exception(PlaygroundFailed(str(message["error"])))
                else:
                    pending.set_result(str(message["words"]))
            return
        self._snapshot = message["snapshot"]
        for key, point in self._snapshot.get("points", {}).items():
            self._points.setdefault(key, deque(maxlen=POINTS_MAX)).append(point)
        self._send({"playground": self._snapshot})
