"""Effects of a shard: responses, records to write, markers to send, and requests for a producer id."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.errors import TidelogError
from tidelog.shard_effects import AppendRecords, Now, Respond, Waiter
from tidelog.types import TopicPartition

__all__ = ["AppendRecords", "Effect", "Effects", "Now", "Respond", "SendMarkers", "TakeProducerId", "Waiter"]


class TakeProducerId(NamedTuple):
    """Allocate an unused producer id; ``then`` gets the id, or the error if none is available."""

    then: "Callable[[int | TidelogError, Now], Effects]"


class SendMarkers(NamedTuple):
    """Write the marker of a transaction to these partitions, with retries, and then call
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
