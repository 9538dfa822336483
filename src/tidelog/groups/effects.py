"""What comes out of a group: answers, and records to write.

An answer that tells of a change goes out when its record is committed: it then comes out of ``Write.then``.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode

KeyValue = tuple[bytes, bytes | None]
"""A record for the log; no value is a tombstone."""

NO_PRODUCER_ID = -1

Waiter = Any
"""Whoever waits for an answer. A group only keeps it and hands it back."""


class Now(NamedTuple):
    """A moment, on both clocks."""

    uptime_ms: int  # only goes forward: for everything that waits or gives up
    wall_ms: int  # for what is written down, and outlives the process


class Answer(NamedTuple):
    waiter: Waiter
    answer: Any  # or the TidelogError that refuses


class Write(NamedTuple):
    """Append these records as one batch; ``then`` says what follows from it.

    ``then`` gets NONE once they are committed, else the error in a coordinator's words. Until then the
    records do not count, and nobody has been told of them.
    """

    records: Sequence[KeyValue]
    then: "Callable[[ErrorCode, Now], Effects]"
    producer_id: int = NO_PRODUCER_ID  # of the transaction they belong to
    producer_epoch: int = -1


class Reload(NamedTuple):
    """What is in memory was built on a write that failed: read the whole shard from the log again."""


Effect = Answer | Write | Reload
Effects = list[Effect]
