"""The topic's settings that a replica needs."""

from typing import NamedTuple


class Limits(NamedTuple):
    min_in_sync: int = 1
    lag_max_ms: int = 10_000
    durable: bool = False  # Whether acknowledged records must be synced.
    pending_max: int = 10_000  # maximum number of pending produces
    degrade_after_ms: int = -1  # Without enough copies for this long, fewer are enough; -1: never.
