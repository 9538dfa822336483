"""The effects of a coordinator's state machines, for groups and transactions: responses, and records to
write. Each kind adds effects of its own.

The response to a change is sent when its record is committed: it comes out of ``AppendRecords.then``.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode

KeyValue = tuple[bytes, bytes | None]
"""A record for the log; no value is a tombstone."""

NO_PRODUCER_ID = -1

Waiter = Any
"""Identifies a pending request. A shard only keeps it and returns it."""


class Now(NamedTuple):
    """The current time, on both clocks."""

    uptime_ms: int  # Monotonic: for all timeouts.
    wall_ms: int  # For what is written, and outlives the process.


class Respond(NamedTuple):
    waiter: Waiter
    response: Any  # Or the TidelogError that refuses.


class AppendRecords(NamedTuple):
    """Append these records as one batch; ``then`` says what follows.

    ``then`` gets NONE once they are committed, else the coordinator's error. Until then the records have no
    effect, and no response mentions them.
    """

    records: Sequence[KeyValue]
    then: Callable[[ErrorCode, Now], list[Any]]  # effects
    producer_id: int = NO_PRODUCER_ID  # of the transaction they belong to
    producer_epoch: int = -1
