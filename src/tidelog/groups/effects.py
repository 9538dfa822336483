"""Effects of a group: responses, and records to write."""

from typing import NamedTuple

from tidelog.shard_effects import NO_PRODUCER_ID, AppendRecords, KeyValue, Now, Respond, Token, Waiter

__all__ = [
    "NO_PRODUCER_ID",
    "AppendRecords",
    "Effect",
    "Effects",
    "KeyValue",
    "Now",
    "Reload",
    "Respond",
    "Token",
    "Waiter",
]


class Reload(NamedTuple):
    """The state in memory is based on a write that failed: load the whole shard from the log again."""


Effect = Respond | AppendRecords | Reload
Effects = list[Effect]
