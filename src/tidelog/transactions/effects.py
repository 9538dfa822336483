"""What comes out of a shard: answers, records to write, markers to send, and the wish for a producer id."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.errors import TidelogError
from tidelog.shard_effects import AppendRecords, Now, Respond, Waiter
from tidelog.types import TopicPartition

__all__ = ["AppendRecords", "Effect", "Effects", "Now", "Respond", "SendMarkers", "TakeProducerId", "Waiter"]


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


Effect = Respond | AppendRecords | TakeProducerId | SendMarkers
Effects = list[Effect]
