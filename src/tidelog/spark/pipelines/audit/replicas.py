"""One replica of one partition, wherever its bytes are: in segment files, or on the broker that holds it.

Owns what an audit knows of a replica before it reads it. :mod:`.segments` and :mod:`.brokers` find replicas
and read them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Unreadable(Exception):
    """A replica, or the rest of it, cannot be read; the message says why."""


class Bytes(NamedTuple):
    """A run of batches, and where it is."""

    place: str
    data: memoryview
    is_last: bool  # may end in the middle of a batch that is being written


class Source(Protocol):
    """Picklable: executors read it."""

    def read(self, offset: int) -> Iterator[Bytes]:
        """Everything; from the batch with ``offset`` on if that saves work, and -1 for all.

        Raises :class:`Unreadable`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Replica:
    broker: str  # its number, or its directory
    topic: str
    partition: int
    start_offset: int  # of its log
    high_watermark: int  # as this replica knows it; -1: unknown
    source: Source

    def read(self, offset: int = -1) -> Iterator[Bytes]:
        return self.source.read(offset)


@dataclass(frozen=True, slots=True)
class Missing:
    """The source of a replica that is known to exist and cannot be reached."""

    reason: str

    def read(self, offset: int) -> Iterator[Bytes]:
        raise Unreadable(self.reason)
