"""Recovery of one segment: every byte is checked, and the state is rebuilt from the batches.

The segment ends before the first batch that is torn, damaged or out of order. Indexes, leader epochs,
producers and aborted transactions are rebuilt from the batches before it.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidelog.config.kinds import LONG_MAX
from tidelog.errors import CorruptBatch
from tidelog.log.aborted_index import AbortedTransaction
from tidelog.log.damage import is_torn
from tidelog.log.epochs import NO_HISTORY, EpochCache, History
from tidelog.log.index_build import RELATIVE_OFFSET_MAX, timestamp_of
from tidelog.log.producers import ProducerStates
from tidelog.log.scan import checked_headers
from tidelog.log.segment import Segment
from tidelog.protocol.batch import BatchHeader
from tidelog.types import NO_EPOCH


class Recovered(NamedTuple):
    """What a check of every byte of a segment found."""

    next_offset: int  # Exclusive end offset of the last valid batch.
    cut_bytes: int  # Bytes truncated after it; 0 if none.
    reason: str  # Why; empty if nothing was truncated.
    torn: bool = False  # Whether it can be the beginning of an interrupted write.
    names_changed: bool = False  # Whether another file has the name of one of its indexes.


def recover(
    segment: Segment,
    index_interval_bytes: int,
    epochs: EpochCache,
    producers: ProducerStates,
    before_cut: Callable[[Recovered], None] = lambda found: None,
    *,
    preallocated: bool = False,
    written_survives: bool = False,
    end_offset_max: int = LONG_MAX,
    history: History = NO_HISTORY,
) -> Recovered:
    """Check every byte, truncate after the last valid batch, rebuild the indexes. Leaves the segment active.

    ``epochs`` and ``producers`` know everything before the segment, and learn its content. ``before_cut`` is
    called before a truncation. ``preallocated``: the file may end in reserved space. ``written_survives``: no
    crash can have brought old batches back, so of two that cannot follow each other either may be the damaged
    one. ``end_offset_max``: exclusive, nothing was written after it. ``history``: the epochs of what was
    synced.
    """
    file = segment.file()
    file_size = file.size()
    segment.indexes.restart()
    segment.size = 0
    next_offset = segment.base_offset
    reason = ""
    aborted: list[AbortedTransaction] = []

    def take(position: int, header: BatchHeader) -> None:
        epochs.assign(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0:
            _learn_producer(segment, position, header, producers, aborted)
        segment.account(position, header.size, header.last_offset, timestamp_of(header), index_interval_bytes)

    held: tuple[int, BatchHeader] | None = None  # Intact; whether it fits the next one is not known yet.
    try:
        for position, header in checked_headers(file, 0, file_size):
            epoch = max(epochs.latest, held[1].leader_epoch) if held else epochs.latest
            try:
                expected = held[1].next_offset if held else next_offset
                _check_order(segment, header, expected, epoch)
            except CorruptBatch:
                if written_survives:
                    held = None
                raise
            written_in = header.leader_epoch
            if history.contradicts(header.base_offset, written_in) and not history.is_older_than(written_in):
                raise CorruptBatch(f"offset {header.base_offset} was not written in {header.leader_epoch}")
            if header.next_offset > end_offset_max:
                raise CorruptBatch(f"offset {header.last_offset}, and the segment ended at {end_offset_max}")
            if held is not None:
                take(*held)
                next_offset = held[1].next_offset
            held = position, header
    except CorruptBatch as error:
        reason = error.message
    if held is not None:
        take(*held)
        next_offset = held[1].next_offset
    # As a whole: this segment may be before the recovery point, and after a crash it would not be read again.
    names_changed = segment.aborted.correct(aborted)
    found = Recovered(next_offset, file_size - segment.size, reason, names_changed=names_changed)
    if found.cut_bytes:
        torn = is_torn(
            file, segment.size, file_size, partial(_may_follow, segment, next_offset),
            preallocated=preallocated,
        )  # fmt: skip
        found = found._replace(torn=torn)
        before_cut(found)
        file.truncate(segment.size)
    segment.trusted_from = 0
    return found


def _learn_producer(
    segment: Segment,
    position: int,
    header: BatchHeader,
    producers: ProducerStates,
    aborted: list[AbortedTransaction],
) -> None:
    if not header.is_control:
        producers.note(header, producers.clock_ms)
        return
    marker = segment.file().read_at(position, header.size)
    ended = producers.note_marker(header, marker, producers.clock_ms)
    if ended is not None:
        aborted.append(ended)


def _check_order(segment: Segment, header: BatchHeader, next_offset: int, epoch: int) -> None:
    if header.base_offset < next_offset:
        raise CorruptBatch(f"offset {header.base_offset} comes again, {next_offset} was expected")
    if not _may_follow(segment, next_offset, header.base_offset):
        raise CorruptBatch(f"offset {header.base_offset} where {next_offset} was expected")
    if header.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        raise CorruptBatch(f"offset {header.last_offset} does not belong here")
    # Bytes from before a truncation that a power failure undid: intact batches, but of an older leader.
    if header.leader_epoch < NO_EPOCH or 0 <= header.leader_epoch < epoch:
        raise CorruptBatch(f"leader epoch {header.leader_epoch} follows {epoch}")


def _may_follow(segment: Segment, next_offset: int, base_offset: int) -> bool:
    """Whether a batch with this base offset may come next. Only a compacted log has gaps."""
    return base_offset == next_offset or next_offset < base_offset <= segment.dense_from
