"""Continuously re-reads inactive segments, so that damage is found while other replicas are intact.

After the records of a segment its indexes are checked. A wrong entry causes them to be rebuilt.

One piece at a time is read in a thread, at a limited rate. The active segment is left out, because this
process has checked what it appended.

A round takes hours, and the log changes meanwhile. The records of a segment are compared with the base offset
and leader epoch of the segment after it. So a finding is valid only while both segments are still adjacent in
the log: a truncated segment ends earlier, or with newer records.
"""

import logging
from bisect import bisect_right
from collections.abc import Generator, Iterator
from itertools import pairwise
from typing import NamedTuple

from tidelog.broker.broker import Broker
from tidelog.broker.partitions.partition import Partition
from tidelog.errors import StorageError
from tidelog.log.index_check import IndexPiece, index_pieces
from tidelog.log.log import Log
from tidelog.log.segment import Segment
from tidelog.log.verification import ANY_EPOCH, PIECE_BYTES, Piece, VerifiedPiece, pieces
from tidelog.services import Timer

logger = logging.getLogger(__name__)

IDLE_MS = 60_000  # between two rounds over everything


class Pair(NamedTuple):
    """A segment that is checked, and the segment after it when the round began."""

    log: Log
    segment: Segment
    following: Segment

    @property
    def is_there(self) -> bool:
        """Whether they are still adjacent: neither was truncated, deleted or compacted."""
        segments = self.log.segments
        number = bisect_right(segments, self.segment.base_offset, key=lambda each: each.base_offset)
        return (
            not self.log.closed
            and 0 < number < len(segments)
            and segments[number - 1] is self.segment
            and segments[number] is self.following
        )


Walk = Generator[tuple[Partition, Pair, Piece | IndexPiece], VerifiedPiece | None, None]


class Scrubber:
    def __init__(self, broker: Broker, idle_ms: float = IDLE_MS) -> None:
        self._broker = broker
        self._idle_ms = idle_ms
        self._walk: Walk | None = None
        self._timer: Timer | None = None
        self._stopped = False
        self.checked_bytes = 0
        self.damaged_segments = 0
        self.wrong_indexes = 0

    def start(self) -> None:
        self._later(self._idle_ms)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _later(self, delay_ms: float) -> None:
        if not self._stopped:
            self._timer = self._broker.services.later(delay_ms, lambda: self.step(None))

    def step(self, last: VerifiedPiece | None) -> None:
        """Check the next piece; ``last`` is the result of the previous one."""
        rate = self._broker.config.log_scrub_bytes_per_second
        if self._stopped or not rate:
            self._later(self._idle_ms)
            return
        try:
            if self._walk is None:
                self._walk = self._pieces()
                partition, pair, piece = next(self._walk)
            else:
                partition, pair, piece = self._walk.send(last)
        except StopIteration:
            self._walk = None
            self._later(self._idle_ms)
            return
        if isinstance(piece, IndexPiece):
            index_piece = piece
            self._broker.services.offload(
                piece.check, lambda found: self._indexes_checked(partition, index_piece, found, rate)
            )
            return
        records = piece
        self._broker.services.offload(
            records.check, lambda found: self._checked(partition, pair, records, found, rate)
        )

    def _indexes_checked(
        self, partition: Partition, piece: IndexPiece, found: str | BaseException, rate: int
    ) -> None:
        log, segment = partition.log, piece.segment
        # A finding is invalid if the segment was truncated, deleted or compacted while it was read.
        there = not log.closed and segment in log.segments and not segment.active
        if found and there and segment.size == piece.size and segment.indexes.offsets.path == piece.paths[0]:
            self.wrong_indexes += 1
            logger.warning("%s: rebuilding the indexes: %s", partition.name, found)
            try:
                log.repair_indexes(segment, str(found))
            except StorageError as error:
                logger.error("%s: %s", partition.name, error.message)
        self._timer = self._broker.services.later(1000 * (PIECE_BYTES // 16) / rate, lambda: self.step(None))

    def _checked(
        self, partition: Partition, pair: Pair, piece: Piece, found: VerifiedPiece | BaseException, rate: int
    ) -> None:
        if isinstance(found, BaseException):
            logger.error("%s could not be checked: %s", partition.name, found)
            found = VerifiedPiece(0, piece.next_offset, str(found))
        self.checked_bytes += piece.region.size
        # A finding is invalid if the segment was truncated, deleted or compacted while it was read.
        if found.damage and pair.is_there:
            self.damaged_segments += 1
            partition.driver.damage.found(found.next_offset, found.damage)
        self._timer = self._broker.services.later(
            1000 * max(piece.region.size, PIECE_BYTES // 16) / rate, lambda: self.step(found)
        )

    def _pieces(self) -> Walk:
        for partition in self._partitions():
            segments = list(partition.log.segments)
            for segment, following in pairwise(segments):
                pair = Pair(partition.log, segment, following)
                if not pair.is_there:
                    continue
                try:
                    found = yield from self._records(partition, pair)
                    if pair.is_there and (found is None or not found.damage):
                        for piece in index_pieces(segment):
                            yield partition, pair, piece
                except (OSError, StorageError) as error:
                    logger.error("%s cannot be checked: %s", partition.name, error)

    def _records(
        self, partition: Partition, pair: Pair
    ) -> Generator[tuple[Partition, Pair, Piece], VerifiedPiece | None, VerifiedPiece | None]:
        """Returns the result of the last piece; None if there was none."""
        first = pair.following.header_at(0)
        epoch_max = first.leader_epoch if first is not None else ANY_EPOCH
        walk = pieces(pair.segment, pair.following.base_offset, epoch_max)
        found: VerifiedPiece | None = None
        try:
            while pair.is_there:
                piece = next(walk) if found is None else walk.send(found)
                # The epochs as of now: a truncation may have changed them since the last piece.
                found = yield partition, pair, piece._replace(history=partition.log.epochs.history())
        except StopIteration:
            pass
        return found

    def _partitions(self) -> Iterator[Partition]:
        yield from list(self._broker.partitions)
