"""What a policy may look at: one partition as its leader sees it. The replica itself is the view; this names
the part
of it that policies read, so that a policy can be tried with a plain object."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from tidelog.errors import ErrorCode
from tidelog.replication.progress import Progress


class View(Protocol):
    @property
    def me(self) -> int: ...

    @property
    def replicas(self) -> tuple[int, ...]: ...

    @property
    def in_sync(self) -> tuple[int, ...]:
        """Members the controller has confirmed."""

    @property
    def maximal_in_sync(self) -> frozenset[int]:
        """Members and pending joins; while a member's leaving is not confirmed, it counts."""

    @property
    def progress(self) -> Mapping[int, Progress]:
        """Of every other replica."""

    @property
    def uncounted(self) -> frozenset[int]:
        """Replicas that are about to go: where copies are counted, theirs do not count."""

    @property
    def durable_end_offset(self) -> int:
        """How far the leader itself holds the log as durably as the topic asks."""

    @property
    def epoch_start_offset(self) -> int:
        """Where the leader's epoch began."""

    @property
    def high_watermark(self) -> int: ...

    @property
    def min_in_sync(self) -> int: ...


class Wait:
    """Not done yet, nothing wrong."""


class Refuse(NamedTuple):
    code: ErrorCode


class Yes:
    """Done."""


YES = Yes()
WAIT = Wait()
Verdict = Yes | Wait | Refuse
