"""What comes out of a shard: answers, records to write, markers to send, and the wish for a producer id.

An answer that tells of a change goes out when its record is committed: it then comes out of ``Write.then``.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode, TidelogError
from tidelog.transactions.records import KeyValue
from tidelog.types import TopicPartition

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
    """Append these records; ``then`` gets NONE once they are committed, else the error in a coordinator's
    words. Until then they do not count, and nobody has been told of them."""

    records: Sequence[KeyValue]
    then: "Callable[[ErrorCode, Now], Effects]"


class TakeProducerId(NamedTuple):
    """Get a producer id that nobody ever had, or the reason why there is none now."""

    then: "Callable[[int | TidelogError, Now], Effects]"


class SendMarkers(NamedTuple):
    """Write the end of a transaction into these partitions, however long it takes; then
    :meth:`~tidelog.transactions.shard.TransactionShard.markers_written`."""

    transactional_id: str
    producer_id: int
    epoch: int
    commits: bool
    client_version: int
    partitions: frozenset[TopicPartition]


Effect = Answer | Write | TakeProducerId | SendMarkers
Effects = list[Effect]
