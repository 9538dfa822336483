"""What a replica asks of its surroundings. Effects are carried out in order, before the next event is
handled.

Effects are plain data: they can be compared, printed and stored. An effect that concerns a waiting request
carries the token that the driver passed in with the event. Only the driver knows which request belongs to a
token.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidelog.errors import ErrorCode


class BeginEpoch(NamedTuple):
    """Record in the log's epoch history that this replica leads from ``start_offset`` on."""

    epoch: int
    start_offset: int


class Truncate(NamedTuple):
    """Drop everything from ``end_offset`` on: where the logs differ, the leader's is right."""

    end_offset: int


class Commit(NamedTuple):
    """The high watermark has advanced to this offset: wake the waiting readers."""

    high_watermark: int


class CompleteProduce(NamedTuple):
    """The produce that waits under ``token`` is done, or can never be."""

    token: int
    error: ErrorCode


# The same as calling the classes, but one call less. Each produce creates one of both.
new_commit: Callable[[tuple[int]], Commit] = partial(tuple.__new__, Commit)
new_complete_produce: Callable[[tuple[int, ErrorCode]], CompleteProduce] = partial(
    tuple.__new__, CompleteProduce
)


class ProposeInSync(NamedTuple):
    """Ask the controller for another in-sync set. At most one proposal is pending at a time."""

    members: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    sealed: bool = False  # The leader accepts no more records, and these members hold its whole log.


class Degrade(NamedTuple):
    """From now on this number of copies is enough, fewer than the topic requires. None: all are required
    again.
    """

    copies: int | None


Effect = BeginEpoch | Truncate | Commit | CompleteProduce | ProposeInSync | Degrade
Effects = list[Effect]
