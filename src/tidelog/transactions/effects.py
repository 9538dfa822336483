"""Effects of a shard: responses, records to write, markers to send, and requests for a producer id."""

from typing import NamedTuple

from tidelog.shard_effects import AppendRecords, Now, Respond, Token, Waiter
from tidelog.types import TopicPartition

__all__ = [
    "AppendRecords",
    "Effect",
    "Effects",
    "Now",
    "Respond",
    "SendMarkers",
    "TakeProducerId",
    "Token",
    "Waiter",
]


class TakeProducerId(NamedTuple):
    """Allocate an unused producer id, then call
    :meth:`~tidelog.transactions.shard.TransactionShard.got_producer_id`.
    """

    token: Token


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
