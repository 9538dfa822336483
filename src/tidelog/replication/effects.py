"""What a replica asks of its surroundings. Carried out in order, before the next event is handed in.

Effects are plain data: they can be compared, printed and kept. Where one has to reach somebody who waits, it
carries the token that the driver gave it with the event; who waits under that token is the driver's business.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tidelog.errors import ErrorCode


class BeginEpoch(NamedTuple):
    """Write into the log's epoch history that this replica leads from ``start_offset`` on."""

    epoch: int
    start_offset: int


class Truncate(NamedTuple):
    """Drop everything from ``end_offset`` on: the leader's log is right where they differ."""

    end_offset: int


class Commit(NamedTuple):
    """The high watermark stands here now: wake those who wait to read."""

    high_watermark: int


class CompleteProduce(NamedTuple):
    """The produce that waits under ``token`` is done, or will never be."""

    token: int
    error: ErrorCode


# What the two classes do when called, less a call: each produce makes one of both.
new_commit: Callable[[tuple[int]], Commit] = partial(tuple.__new__, Commit)
new_complete_produce: Callable[[tuple[int, ErrorCode]], CompleteProduce] = partial(
    tuple.__new__, CompleteProduce
)


class ProposeInSync(NamedTuple):
    """Ask the controller for another in-sync set. One proposal is under way at a time."""

    members: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    sealed: bool = False  # The leader takes nothing more: these hold all there is.


class Degrade(NamedTuple):
    """From now on so many copies are enough, fewer than the topic asks for; None: all of them again."""

    copies: int | None


Effect = BeginEpoch | Truncate | Commit | CompleteProduce | ProposeInSync | Degrade
Effects = list[Effect]
