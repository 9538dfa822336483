"""Which offset is the newest of each key: the memory of compaction while it rewrites a log.

Owns a hash table of fixed size in two flat arrays of digests and one of offsets: 24 bytes per slot instead of
the hundreds that a dict of bytes and ints would take, so that ``log.cleaner.dedupe.buffer.size`` is accurate.

Keys are identified by a 128-bit cryptographic digest. With hashes that can be made to collide, a producer
could delete another producer's key.
"""

from array import array
from hashlib import blake2b
from struct import Struct

from tidelog.invariant import invariant
from tidelog.protocol.batch import Buffer

_SLOT_BYTES = 24
_SLOTS_PER_KEY = 4 / 3  # linear probing stays short up to three quarters full
BYTES_PER_KEY = int(_SLOT_BYTES * _SLOTS_PER_KEY)

_split = Struct("<QQ").unpack


def keys_that_fit(buffer_bytes: int) -> int:
    """The number of keys that a table of that many bytes can hold."""
    return max(1, buffer_bytes // BYTES_PER_KEY)


class KeyOffsets:
    """Newest offset per key, for at most ``capacity`` keys; offsets are put in ascending order."""

    __slots__ = ("_high", "_low", "_offsets", "_slots", "capacity", "count")

    def __init__(self, capacity: int) -> None:
        invariant(capacity > 0, "a map of keys needs room for one", capacity)
        self.capacity = capacity
        self.count = 0  # Distinct keys. count <= capacity.
        self._slots = int(capacity * _SLOTS_PER_KEY) + 1  # One is always free, so that a search ends.
        self._high = array("Q", bytes(8 * self._slots))
        self._low = array("Q", bytes(8 * self._slots))
        self._offsets = array("q", b"\xff" * (8 * self._slots))  # -1: the slot is free

    def put(self, key: Buffer, offset: int) -> None:
        high, low = _split(blake2b(key, digest_size=16).digest())
        slot = self._find(high, low)
        if self._offsets[slot] < 0:
            invariant(self.count < self.capacity, "the map of keys is full", self.capacity)
            self.count += 1
            self._high[slot] = high
            self._low[slot] = low
        self._offsets[slot] = offset

    def get(self, key: Buffer) -> int:
        """The newest offset of the key; -1 if it was never put."""
        return self._offsets[self._find(*_split(blake2b(key, digest_size=16).digest()))]

    def _find(self, high: int, low: int) -> int:
        """The slot of this digest, or the free one where it belongs."""
        offsets, highs, lows, slots = self._offsets, self._high, self._low, self._slots
        slot = high % slots
        while offsets[slot] >= 0 and not (highs[slot] == high and lows[slot] == low):
            slot += 1
            if slot == slots:
                slot = 0
        return slot
