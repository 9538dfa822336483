"""Moves the bytes of one direction of one connection.

Where nothing is wrong the kernel moves them, by ``splice`` through a pipe: they are never in our memory.
Where the line has a shape they wait here, each with the time of its arrival. A cut stops the pump: nothing is
read and nothing is written, also not the end of the connection; what is on its way stays where it is.
"""

import contextlib
import fcntl
import os
import socket
from collections import deque
from collections.abc import Callable

from tidelog.lab.network.loop import READ, WRITE, End, RelayLoop, Timer
from tidelog.lab.network.shape import Line, Shape, resumes_at

CHUNK_BYTES = 1 << 20
SHAPED_CHUNK_BYTES = 1 << 16
HELD_BYTES_MAX = 4 << 20  # in one direction of a connection with a shape: what a window of TCP may hold
CHUNK_S = 0.02  # of a slow line in one chunk

_HAS_SPLICE = hasattr(os, "splice")
_FLAGS = getattr(os, "SPLICE_F_MOVE", 0) | getattr(os, "SPLICE_F_NONBLOCK", 0)
_F_SETPIPE_SZ = 1031


class Pump:
    """``ended`` is called when the end of the stream was passed on, ``failed`` when a side has closed the
    connection abruptly: the target, if writing to it failed.
    """

    def __init__(
        self,
        loop: RelayLoop,
        source: End,
        target: End,
        shape: Shape,
        line: Line,
        ended: Callable[[], None],
        failed: Callable[[bool], None],
    ) -> None:
        self._loop = loop
        self._source, self._target = source, target
        self._shape, self._line = shape, line
        self._ended, self._failed = ended, failed
        self._pipe: tuple[int, int] | None = None
        self._piped = 0  # bytes in the pipe
        self._queue: deque[tuple[float, memoryview]] = deque()  # (arrival, bytes)
        self._queued = 0
        self._has_end = False  # the source has sent everything
        self._is_done = False  # and the target got it
        self._timer: Timer | None = None
        self._cut_at = loop.now()
        self._resumes_at = 0.0
        source.on_read, target.on_write = self._readable, self._flush
        self._go_on()

    def close(self) -> None:
        self._is_done = True
        self._cancel()
        if self._pipe is not None:
            for descriptor in self._pipe:
                os.close(descriptor)
            self._pipe = None

    @property
    def is_cut(self) -> bool:
        return self._shape.cut or self._loop.now() < self._resumes_at

    def reshape(self, shape: Shape) -> None:
        before, self._shape = self._shape, shape
        now = self._loop.now()
        if shape.cut and not before.cut:
            self._cut_at = now
        elif before.cut and not shape.cut:
            self._resumes_at = resumes_at(self._cut_at, now)
        self._go_on()

    # -- state ---------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Wait for what is next: bytes, room, or a time."""
        if self._is_done:
            return
        self._cancel()
        if self.is_cut:
            self._source.want(READ, False)
            self._target.want(WRITE, False)
            if not self._shape.cut:
                self._timer = self._loop.at(self._resumes_at, self._go_on)
        else:
            self._flush()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail(self, *, writing: bool) -> None:
        self._is_done = True
        self._source.want(READ, False)
        self._target.want(WRITE, False)
        self._failed(writing)

    # -- in ------------------------------------------------------------------------------

    def _readable(self) -> None:
        try:
            if self._shape.is_clear and not self._queue and _HAS_SPLICE:
                self._splice_in()
            else:
                self._take()
        except BlockingIOError:
            return
        except OSError:
            self._fail(writing=False)
            return
        self._flush()

    def _splice_in(self) -> None:
        if self._pipe is None:
            self._pipe = _new_pipe()
        moved = os.splice(self._source.file.fileno(), self._pipe[1], CHUNK_BYTES, flags=_FLAGS)
        self._piped += moved
        self._has_end = not moved

    def _take(self) -> None:
        size = SHAPED_CHUNK_BYTES
        if self._shape.kbytes_per_s:
            size = max(min(size, int(self._shape.kbytes_per_s * 1000 * CHUNK_S)), 512)
        data = self._source.file.recv(size)
        if not data:
            self._has_end = True
            return
        arrival = self._line.arrives_at(self._shape, self._loop.now(), len(data))
        self._queue.append((arrival, memoryview(data)))
        self._queued += len(data)

    # -- out -----------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write what has arrived, and wait for what is next."""
        try:
            has_room = self._flush_pipe() and self._flush_queue()
        except OSError:
            self._fail(writing=True)
            return
        self._target.want(WRITE, not has_room)
        if has_room and self._has_end and not self._queue:
            self._end()
            return
        # What the pipe holds must leave before more is read: the target is slower than the source.
        may_read = not self._has_end and not self._piped and self._queued < HELD_BYTES_MAX
        self._source.want(READ, may_read)

    def _flush_pipe(self) -> bool:
        while self._piped and self._pipe is not None:
            try:
                moved = os.splice(self._pipe[0], self._target.file.fileno(), self._piped, flags=_FLAGS)
            except BlockingIOError:
                return False
            self._piped -= moved
        return True

    def _flush_queue(self) -> bool:
        now = self._loop.now()
        while self._queue:
            arrival, data = self._queue[0]
            if arrival > now:
                self._cancel()
                self._timer = self._loop.at(arrival, self._go_on)
                return True
            try:
                sent = self._target.file.send(data)
            except BlockingIOError:
                return False
            self._queued -= sent
            if sent == len(data):
                self._queue.popleft()
            else:
                self._queue[0] = (arrival, data[sent:])
        return True

    def _end(self) -> None:
        self._is_done = True
        self._source.want(READ, False)
        self._target.want(WRITE, False)
        try:
            self._target.file.shutdown(socket.SHUT_WR)
        except OSError:
            self._failed(True)
            return
        self._ended()


def _new_pipe() -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # The system may allow this user no more: smaller steps.
        fcntl.fcntl(writing, _F_SETPIPE_SZ, CHUNK_BYTES)
    return reading, writing
