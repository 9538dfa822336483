"""What comes out of a group: answers, and records to write."""

from typing import NamedTuple

from tidelog.shard_effects import NO_PRODUCER_ID, Answer, KeyValue, Now, Waiter, Write

__all__ = ["NO_PRODUCER_ID", "Answer", "Effect", "Effects", "KeyValue", "Now", "Reload", "Waiter", "Write"]


class Reload(NamedTuple):
    """What is in memory was built on a write that failed: read the whole shard from the log again."""


Effect = Answer | Write | Reload
Effects = list[Effect]
