"""Splits the received bytes of a connection into requests.

Small requests are copied from one scratch buffer. A large request is received directly into a buffer of its
size, so that a large batch is never copied on its way to the log. That buffer is reused for the next large
request if it is free. New buffers are not cleared: that costs as much as a checksum, and a client that only
announces a large request would use its memory. The system provides it as bytes arrive.
"""

import ctypes
import mmap
from collections.abc import Callable
from struct import Struct

from tidelog.broker.requests.request import HangUp
from tidelog.protocol import envelope, messages, produce

SCRATCH_BYTES = 64 * 1024
OWN_BUFFER_FROM_BYTES = 16 * 1024  # a smaller request stays in the scratch buffer until it is complete
PEEK_BYTES = 512  # read first if the next request is probably large: this part is copied
PLAIN_BYTES_MAX = 8 * 1024 * 1024  # of a request other than Produce
ENVELOPE_BYTES_MAX = 1024  # that an envelope may add to a client's request

_SIZE = Struct(">i")
_START = Struct(">ih")  # size, api key
# First bytes of other protocols. Read as a size, each is larger than any request.
_HTTP = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"CONN", b"PATC", b"TRAC", b"PRI ")
_TLS = b"\x16\x03"

_make_bytearray: Callable[[None, int], bytearray] = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t
)(("PyByteArray_FromStringAndSize", ctypes.pythonapi))


def uncleared(size: int) -> bytearray:
    """A buffer with any content. Only what was received into it may be read."""
    return _make_bytearray(None, size)


class Receiver:
    LEAST_BYTES = 9  # a request's header and one byte more
    SPARE_BYTES_MAX = 2 * 1024 * 1024  # a larger buffer is not kept for reuse
    LAZY_FROM_BYTES = 4 * 1024 * 1024  # from this size on, memory is used only as it fills

    __slots__ = (
        "_bulk",
        "_end",
        "_filled",
        "_frame",
        "_max_bytes",
        "_of_stranger",
        "_scratch",
        "_spare",
        "_start",
        "_view",
        "needed_bytes",
        "number",
    )

    def __init__(self, max_bytes: int, *, of_stranger: bool = False) -> None:
        """``of_stranger``: the client has to authenticate first. Of what it sends unasked, only the beginning
        is received before it is known how large the request is.
        """
        self._max_bytes = max_bytes
        self._of_stranger = of_stranger
        self._scratch = uncleared(SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        self._start = 0  # of the bytes in the scratch buffer that are not consumed yet
        self._end = 0
        self._frame: memoryview | None = None  # a large request that is being received
        self._filled = 0
        self._spare: bytearray | None = None
        self._bulk = of_stranger  # the next request may be a large one
        self.number = 0  # of the requests that were received completely
        self.needed_bytes = 0  # if not 0, the next request needs a separate buffer of this size

    def expect_no_records(self) -> None:
        """The other end sends no Produce requests, so none of its requests is that large."""
        self._max_bytes = min(self._max_bytes, PLAIN_BYTES_MAX)

    def allow(self, max_bytes: int) -> None:
        """The client has authenticated: requests may be that large from now on."""
        self._max_bytes = max_bytes
        self._of_stranger = self._bulk = False

    @property
    def in_the_middle(self) -> bool:
        """Whether a request has begun and is incomplete."""
        return self._frame is not None or self._end > self._start

    @property
    def announced_bytes(self) -> int:
        """Size of the large request that is being received."""
        return 0 if self._frame is None else len(self._frame)

    def buffer(self) -> memoryview:
        """The buffer for the next bytes."""
        if self._frame is not None:
            return self._frame[self._filled :]
        if self._end == SCRATCH_BYTES:
            rest = self._end - self._start
            self._scratch[:rest] = self._scratch[self._start : self._end]
            self._start, self._end = 0, rest
        if self._bulk and self._end == 0:
            return self._view[:PEEK_BYTES]
        return self._view[self._end :]

    def received(self, count: int) -> bool:
        """Whether a request may be complete now; False in the middle of a large one."""
        if self._frame is not None:
            self._filled += count
            return self._filled == len(self._frame)
        self._end += count
        return True

    def next(self) -> memoryview | None:
        """A complete request; None if more bytes are needed, or a buffer (see ``needed_bytes``)."""
        if self._frame is not None:
            if self._filled < len(self._frame):
                return None
            request, self._frame = self._frame, None
            self.number += 1
            return request
        have = self._end - self._start
        if have < 4:
            self._rewind()
            return None
        (size,) = _SIZE.unpack_from(self._view, self._start)
        if not self.LEAST_BYTES <= size <= self._max_bytes and not self._may_be_envelope(size, have):
            raise HangUp(self._what_else(size))
        if have >= 4 + size:
            self._bulk = self._of_stranger
            self.number += 1
            begin = self._start + 4
            self._start = begin + size
            # Copied out: the next read overwrites scratch while this batch may still be in use.
            return memoryview(bytearray(self._view[begin : self._start]))
        if size >= OWN_BUFFER_FROM_BYTES and have >= 6:
            self._check_kind(size)
            self.needed_bytes = size
        return None

    def _may_be_envelope(self, size: int, have: int) -> bool:
        """A request that another broker has accepted and forwards may exceed the limit by its envelope. If it
        were refused, it would be retried until its timeout.
        """
        if not self._max_bytes < size <= self._max_bytes + ENVELOPE_BYTES_MAX:
            return False
        return have < _START.size or _START.unpack_from(self._view, self._start)[1] == envelope.API_KEY

    def _what_else(self, size: int) -> str:
        """The reason to refuse a frame. Recognizes other protocols: a wrong port is a common mistake."""
        begin = bytes(self._view[self._start : self._start + 4])
        if begin in _HTTP:
            return "an HTTP request; this port uses the Kafka protocol (metrics are on http.port)"
        if begin.startswith(_TLS):
            return "a TLS handshake; this port uses the Kafka protocol without encryption"
        return f"a frame of {size} bytes; allowed are {self.LEAST_BYTES} to {self._max_bytes}"

    def _rewind(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0

    def _check_kind(self, size: int) -> None:
        _, api_key = _START.unpack_from(self._view, self._start)
        limit = PLAIN_BYTES_MAX + (ENVELOPE_BYTES_MAX if api_key == envelope.API_KEY else 0)
        if size > limit and api_key != produce.API_KEY:
            # Only Produce requests may be that large. Decoding so many small fields would block other
            # clients.
            name = messages.name_of(api_key)
            raise HangUp(f"a {name} request of {size} bytes; allowed are {limit}")

    def begin_large(self) -> int:
        """Allocate the buffer of ``needed_bytes`` and move the received part of the request into it; returns
        its size.
        """
        size, self.needed_bytes = self.needed_bytes, 0
        self._bulk = True
        frame = self._take_buffer(size)
        have = self._end - self._start - 4
        frame[:have] = self._view[self._start + 4 : self._end]
        self._frame = frame
        self._filled = have
        self._start = self._end = 0
        return have

    def _take_buffer(self, size: int) -> memoryview:
        spare, self._spare = self._spare, None
        if spare is not None and len(spare) >= size:
            return memoryview(spare)[:size]
        if size >= self.LAZY_FROM_BYTES:
            return memoryview(mmap.mmap(-1, size))
        return memoryview(uncleared(size))

    def drop_spare(self) -> None:
        """The connection is quiet: others may need the memory."""
        self._spare = None

    def give_back(self, request: memoryview) -> None:
        """This large request is no longer needed."""
        buffer = request.obj
        if isinstance(buffer, bytearray) and len(buffer) <= self.SPARE_BYTES_MAX:
            self._spare = buffer
