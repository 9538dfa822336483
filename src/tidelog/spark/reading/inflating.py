"""Compressed batches, opened one after another into memory that is reused.

Owns that memory: it starts small, grows for a batch that needs more, and never exceeds a limit, because a few
kilobytes can claim to be gigabytes.
"""

import ctypes
from collections.abc import Callable
from typing import Any

from tidelog.errors import CorruptBatch
from tidelog.protocol.codecs import MAX_DECOMPRESSED_BYTES, Codec, decompress
from tidelog.spark.kernel.slots import PADDING_BYTES

FULL_BYTES = 4 << 20
"""The amount to gather before it is converted to columns."""

_FIRST_ROOM_BYTES = 2 * FULL_BYTES
_NO_ROOM = "failed to write whole buffer"  # how cramjam says so


class Inflater:
    """Room for the records of several batches."""

    def __init__(self) -> None:
        self._make_room(0)  # most topics are not compressed

    @property
    def is_empty(self) -> bool:
        return self.used == 0

    def clear(self) -> None:
        """Everything opened has been converted to columns."""
        self.used = 0

    def inflate(self, codec: int, payload: memoryview) -> tuple[int, int] | None:
        """(address of the first byte, address after the last); None: there is no room, clear it first."""
        while True:
            size = self._into_room(codec, payload)
            if size is not None:
                start = self._address + self.used
                self.used += size
                return start, start + size
            if not self.is_empty:
                return None
            if self._size >= MAX_DECOMPRESSED_BYTES:
                raise CorruptBatch(f"the records expand to more than {MAX_DECOMPRESSED_BYTES} bytes")
            self._make_room(min(max(self._size * 4, _FIRST_ROOM_BYTES), MAX_DECOMPRESSED_BYTES))

    def _make_room(self, size: int) -> None:
        self._size = size
        self._room = bytearray(size + PADDING_BYTES)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._room))
        self.used = 0

    def _into_room(self, codec: int, payload: memoryview) -> int | None:
        """The decompressed size; None: more than there is room for."""
        room = memoryview(self._room)[self.used : self._size]
        decompress_into = _straight(codec)
        if decompress_into is None:
            opened = decompress(codec, payload)
            if len(opened) > len(room):
                return None
            room[: len(opened)] = opened
            return len(opened)
        import cramjam

        try:
            return int(decompress_into(payload, room))
        except cramjam.DecompressionError as error:
            if _NO_ROOM in str(error):
                return None
            raise CorruptBatch(f"the {Codec(codec).label} data cannot be read: {error}") from None


def _straight(codec: int) -> Callable[[Any, Any], int] | None:
    """Opens a codec straight into existing memory, which snappy's framing does not support."""
    import cramjam

    straight: dict[int, Any] = {Codec.GZIP: cramjam.gzip, Codec.LZ4: cramjam.lz4, Codec.ZSTD: cramjam.zstd}
    module = straight.get(codec)
    return None if module is None else module.decompress_into
