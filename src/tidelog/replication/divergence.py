"""Finds where two logs diverge, by the leader epochs of their records. Two logs that hold the same epoch at
an offset are equal up to there.
"""

from typing import Protocol

from tidelog.types import NO_EPOCH


class Epochs(Protocol):
    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]: ...

    def epoch_at(self, offset: int) -> int: ...


class ReplicaLog(Protocol):
    """What a replica may query from its log."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def synced_end_offset(self) -> int: ...

    @property
    def epochs(self) -> Epochs: ...


def last_epoch_of(log: ReplicaLog, base_epoch: int) -> int:
    """The epoch of the newest record, even if retention has deleted it: an empty log is not older than one
    that still has the first of those records. -1 if there never was a record.
    """
    end_offset = log.end_offset
    if end_offset == 0:
        return NO_EPOCH  # A leader may have begun its epoch here, and have written nothing.
    if end_offset > log.start_offset:
        return log.epochs.epoch_at(end_offset - 1)
    return max(base_epoch, log.epochs.epoch_at(end_offset))


def divergence(
    log: ReplicaLog, base_epoch: int, offset: int, last_epoch: int, start_offset: int = 0
) -> tuple[int, int] | None:
    """Of another log, whose record before ``offset`` was written by ``last_epoch``: the (epoch, end offset)
    of ours to compare it with next; None where it is the beginning of ours.

    A log that begins at ``offset`` has no records. It may have skipped to the start of a former leader's log,
    and then its epoch is that of the last record it had before: the record before ``offset`` may have a later
    one. Everything before a log start is committed, so there is nothing to truncate.
    """
    if last_epoch < 0:
        return None
    epochs = log.epochs
    if NO_EPOCH < base_epoch < last_epoch < epochs.epoch_at(log.start_offset):
        # Our history has nothing of that epoch. What came before our log start ended with an earlier one.
        return base_epoch, log.start_offset
    epoch, end_offset = epochs.end_offset_for(last_epoch, log.end_offset)
    if epoch == NO_EPOCH:
        return None
    if epoch < last_epoch or (end_offset < offset and start_offset < offset):
        return epoch, end_offset
    return None


def common_end_offset(log: ReplicaLog, leader_epoch_end: tuple[int, int]) -> int:
    """The offset at which our log diverges from the leader's. After an unclean election it may lie before our
    log start: then nothing of our log is left. If the log start were kept, we would wait until the leader's
    log reaches it.
    """
    asked, leader_end = leader_epoch_end
    own_epoch, own_end = log.epochs.end_offset_for(asked, log.end_offset)
    return leader_end if own_epoch == NO_EPOCH else min(leader_end, own_end)
