"""The interface of the data directory for the table of partitions."""

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
        """The high watermark in the last checkpoint."""

    def was_log_confirmed(self, name: TopicPartition) -> bool:
        """Whether the log was confirmed up to the high watermark by the last process, and still is."""

    def lower_claims(self, name: TopicPartition, offset: int) -> None:
        """The log is about to be truncated to ``offset``: lower the offsets in the checkpoint first."""

    # Called for every checkpoint: whether the replica's log is confirmed up to its high watermark.
    is_log_confirmed: Callable[[TopicPartition], bool]

    def usage(self) -> tuple[int, int]:
        """(total bytes, free bytes) of the volume."""

    @property
    def path(self) -> str: ...

    @property
    def written_survives(self) -> bool:
        """Whether everything that the last process wrote has survived."""
