"""The effects of a coordinator's state machines, for groups and transactions: responses, and records to
write. Each kind adds effects of its own.

Effects are plain data. A write has a token: the machine remembers what follows it, and gets an event with the
token. The response to a change is sent when its record is committed: it is an effect of that event.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

KeyValue = tuple[bytes, bytes | None]
"""A record for the log; no value is a tombstone."""

NO_PRODUCER_ID = -1

Waiter = Any
"""Identifies a pending request. A shard only keeps it and returns it."""


Token = Hashable
"""Identifies a write or a request for a producer id whose outcome a shard waits for."""


class Now(NamedTuple):
    """The current time, on both clocks."""

    uptime_ms: int  # Monotonic: for all timeouts.
    wall_ms: int  # For what is written, and outlives the process.


class Respond(NamedTuple):
    waiter: Waiter
    response: Any  # Or the TidelogError that refuses.


class AppendRecords(NamedTuple):
    """Append these records as one batch, then call ``appended`` of the shard, once, with the token.

    It gets NONE once they are committed, else the coordinator's error; NOT_COORDINATOR if the shard was
    unloaded. Until then the records have no effect, and no response mentions them.
    """

    records: Sequence[KeyValue]
    token: Token
    producer_id: int = NO_PRODUCER_ID  # of the transaction they belong to
    producer_epoch: int = -1
