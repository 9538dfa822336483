"""What comes out of a shard: responses, records to write, markers to send, and requests for a producer id.

The response to a change is sent when its record is committed: it comes out of ``Write.then``.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode, TidelogError
from tidelog.transactions.records import KeyValue
from tidelog.types import TopicPartition

Waiter = Any
"""Identifies a pending request. A shard only keeps it and returns it."""


class Now(NamedTuple):
    """A moment, on both clocks."""

    uptime_ms: int  # Monotonic: for all timeouts.
    wall_ms: int  # For what is written, and outlives the process.


class Answer(NamedTuple):
    waiter: Waiter
    answer: Any  # Or the TidelogError that refuses.


class Write(NamedTuple):
    """Append these records; ``then`` gets NONE once they are committed, else the coordinator's error. Until
    then they have no effect, and no response mentions them.
    """

    records: Sequence[KeyValue]
    then: "Callable[[ErrorCode, Now], Effects]"


class TakeProducerId(NamedTuple):
    """Get a producer id that was never used, or the reason why there is none now."""

    then: "Callable[[int | TidelogError, Now], Effects]"


class SendMarkers(NamedTuple):
    """Write the end of a transaction to these partitions, with retries; then
    :meth:`~tidelog.transactions.shard.TransactionShard.markers_written`.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    commits: bool
    client_version: int
    partitions: frozenset[TopicPartition]


Effect = Answer | Write | TakeProducerId | SendMarkers
Effects = list[Effect]
