"""What comes out of a group: responses, and records to write."""

from typing import NamedTuple

from tidelog.shard_effects import NO_PRODUCER_ID, Answer, KeyValue, Now, Waiter, Write

__all__ = ["NO_PRODUCER_ID", "Answer", "Effect", "Effects", "KeyValue", "Now", "Reload", "Waiter", "Write"]


class Reload(NamedTuple):
    """The state in memory is based on a write that failed: load the whole shard from the log again."""


Effect = Answer | Write | Reload
Effects = list[Effect]
