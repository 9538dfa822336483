"""What comes out of the state that a coordinator keeps in a log, of groups as of transactions: answers, and
records to write. Each kind adds effects of its own.

An answer that tells of a change goes out when its record is committed: it then comes out of ``Write.then``.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode

KeyValue = tuple[bytes, bytes | None]
"""A record for the log; no value is a tombstone."""

NO_PRODUCER_ID = -1

Waiter = Any
"""Whoever waits for an answer. A shard only keeps it and hands it back."""


class Now(NamedTuple):
    """A moment, on both clocks."""

    uptime_ms: int  # Only goes forward: for everything that waits or gives up.
    wall_ms: int  # For what is written down, and outlives the process.


class Answer(NamedTuple):
    waiter: Waiter
    answer: Any  # Or the TidelogError that refuses.


class Write(NamedTuple):
    """Append these records as one batch; ``then`` says what follows from it.

    ``then`` gets NONE once they are committed, else the error in a coordinator's words. Until then the
    records do not count, and nobody has been told of them.
    """

    records: Sequence[KeyValue]
    then: Callable[[ErrorCode, Now], list[Any]]  # effects
    producer_id: int = NO_PRODUCER_ID  # of the transaction they belong to
    producer_epoch: int = -1
