"""The nouns every package shares. Plain ints with a name: they cost nothing on the hot path."""

from typing import NamedTuple, NewType
from uuid import UUID

Offset = NewType("Offset", int)
"""Position of a record in a partition. Every ``*_end_offset`` is exclusive."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Leadership generation of a partition; a Raft term has the same type."""

BrokerId = NewType("BrokerId", int)

TopicId = UUID

METADATA_TOPIC_ID = UUID(int=1)
"""The metadata log is a partition like others; Kafka gives it this id, too."""

NO_EPOCH = LeaderEpoch(-1)
NO_BROKER = BrokerId(-1)
NO_OFFSET = Offset(-1)


def majority(voters: int) -> int:
    """How many of them make a majority."""
    return voters // 2 + 1


class TopicPartition(NamedTuple):
    """A partition by name; its directory on disk has the same name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class SnapshotId(NamedTuple):
    """Identifies a snapshot: everything before ``end_offset``, the last of it written in ``epoch``."""

    end_offset: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.end_offset}-{self.epoch}"
