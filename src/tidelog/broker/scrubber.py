"""Reads old segments back, slowly and for ever, so that damage is found while other replicas are whole.

One piece at a time, in a thread, at a pace that nobody notices. Only segments that are not written any more:
what this process appends it has checked.
"""

import logging
from collections.abc import Generator, Iterator
from itertools import pairwise

from tidelog.broker.broker import Broker
from tidelog.broker.partition import Partition
from tidelog.errors import StorageError
from tidelog.log.verification import PIECE_BYTES, Checked, Piece, pieces
from tidelog.services import Timer

logger = logging.getLogger(__name__)

IDLE_MS = 60_000  # between two rounds over everything


class Scrubber:
    def __init__(self, broker: Broker, idle_ms: float = IDLE_MS) -> None:
        self._broker = broker
        self._idle_ms = idle_ms
        self._walk: Generator[tuple[Partition, Piece], Checked | None, None] | None = None
        self._timer: Timer | None = None
        self._stopped = False
        self.checked_bytes = 0
        self.damaged_segments = 0

    def start(self) -> None:
        self._later(self._idle_ms)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, delay_ms: float) -> None:
        if not self._stopped:
            self._timer = self._broker.services.later(delay_ms, lambda: self.step(None))

    def step(self, last: Checked | None) -> None:
        """Check the next piece; ``last`` is what became of the one before."""
        rate = self._broker.config.log_scrub_bytes_per_second
        if self._stopped or not rate:
            self._later(self._idle_ms)
            return
        try:
            if self._walk is None:
                self._walk = self._pieces()
                partition, piece = next(self._walk)
            else:
                partition, piece = self._walk.send(last)
        except StopIteration:
            self._walk = None
            self._later(self._idle_ms)
            return
        self._broker.services.offload(piece.check, lambda found: self._checked(partition, piece, found, rate))

    def _checked(self, partition: Partition, piece: Piece, found: Checked | BaseException, rate: int) -> None:
        if isinstance(found, BaseException):
            logger.error("%s could not be checked: %s", partition.name, found)
            found = Checked(0, piece.next_offset, str(found))
        self.checked_bytes += piece.region.size
        # Truncated, deleted or compacted while it was read: then it proves nothing.
        there = not partition.log.closed and piece.segment in partition.log.segments
        if found.damage and there and piece.segment.size >= piece.region.position + piece.region.size:
            self.damaged_segments += 1
            partition.hosted.damaged(found.next_offset, found.damage)
        self._timer = self._broker.services.later(
            1000 * max(piece.region.size, PIECE_BYTES // 16) / rate, lambda: self.step(found)
        )

    def _pieces(self) -> Generator[tuple[Partition, Piece], Checked | None, None]:
        for partition in self._partitions():
            segments = list(partition.log.segments)
            for segment, following in pairwise(segments):
                if partition.log.closed:
                    break
                try:
                    walk = pieces(segment, following.base_offset)
                    found: Checked | None = None
                    while True:
                        piece = next(walk) if found is None else walk.send(found)
                        found = yield partition, piece
                except StopIteration:
                    continue
                except (OSError, StorageError) as error:
                    logger.error("%s cannot be checked: %s", partition.name, error)

    def _partitions(self) -> Iterator[Partition]:
        yield from list(self._broker.partitions)
