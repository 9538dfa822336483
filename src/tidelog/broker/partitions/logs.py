"""What the table of partitions needs of the disk."""

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from tidelog.config import TopicConfig
from tidelog.log.log import Log
from tidelog.types import TopicPartition


class Logs(Protocol):
    """The broker's data directory."""

    def has_log(self, name: TopicPartition, topic_id: UUID) -> bool: ...

    def open_log(self, name: TopicPartition, topic_id: UUID, config: TopicConfig, now_ms: int) -> Log: ...

    def remove_log(self, name: TopicPartition, now_ms: int) -> None: ...

    def high_watermark(self, name: TopicPartition) -> int:
        """As of the last checkpoint."""

    def was_sure(self, name: TopicPartition) -> bool:
        """Whether the last process was sure of it, and nothing can have changed since."""

    def lower_claims(self, name: TopicPartition, offset: int) -> None:
        """Before the log is cut there."""

    # Asked for every checkpoint: is a replica sure of its watermark?
    is_sure: Callable[[TopicPartition], bool]

    def usage(self) -> tuple[int, int]:
        """(total bytes, free bytes) of the volume."""

    @property
    def path(self) -> str: ...

    @property
    def written_survives(self) -> bool:
        """Whether everything that the last process wrote is still there."""
