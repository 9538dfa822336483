"""Limits how fast followers outside the in-sync set catch up, if an operator has set a rate.

Moving replicas must not take the network from clients. A token bucket fills at the given rate and holds one
interval's worth of bytes. A response may overdraw it by one batch; the next one then waits longer.
"""

INTERVAL_MS = 1000
UNLIMITED = (1 << 63) - 1
EVERYBODY = "*"


class Throttle:
    __slots__ = ("_bytes", "_filled_ms", "_rate")

    def __init__(self) -> None:
        self._rate = UNLIMITED  # bytes per second
        self._bytes = 0.0
        self._filled_ms = 0

    def set_rate(self, bytes_per_second: int, now_ms: int) -> None:
        if bytes_per_second != self._rate:
            self._rate, self._bytes, self._filled_ms = bytes_per_second, 0.0, now_ms

    @property
    def limits(self) -> bool:
        return self._rate < UNLIMITED

    def allowance(self, now_ms: int) -> int:
        """Bytes that may be sent now."""
        gained = self._rate * (now_ms - self._filled_ms) / 1000
        self._bytes = min(self._bytes + gained, self._rate * INTERVAL_MS / 1000)
        self._filled_ms = now_ms
        return int(self._bytes)

    def spend(self, count: int) -> None:
        self._bytes -= count


def throttled_followers(setting: str, partition: int) -> frozenset[int] | None:
    """The followers of a partition that a topic's setting (``partition:broker,…``) names; None: all of
    them.
    """
    if setting.strip() == EVERYBODY:
        return None
    found = set()
    for pair in filter(None, (part.strip() for part in setting.split(","))):
        number, _, broker = pair.partition(":")
        if int(number) == partition:
            found.add(int(broker))
    return frozenset(found)
