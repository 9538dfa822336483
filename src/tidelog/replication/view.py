"""What a policy may read: one partition as one replica sees it, usually its leader. The replica itself is the
view. This protocol names the part of it that policies read, so that a policy can be tested with a plain
object.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from tidelog.errors import ErrorCode
from tidelog.replication.limits import Limits
from tidelog.replication.progress import Progress


class View(Protocol):
    @property
    def me(self) -> int: ...

    @property
    def replicas(self) -> tuple[int, ...]: ...

    @property
    def in_sync(self) -> tuple[int, ...]:
        """Members that the controller has confirmed."""

    @property
    def maximal_in_sync(self) -> frozenset[int]:
        """Members and pending additions. A pending removal does not change it."""

    @property
    def progress(self) -> Mapping[int, Progress]:
        """The progress of every other replica."""

    @property
    def uncounted(self) -> frozenset[int]:
        """Replicas that are about to be removed. Their copies do not count where copies are counted."""

    @property
    def durable_end_offset(self) -> int:
        """The leader's own log end offset; where acknowledgements require a sync, its synced end offset."""

    @property
    def epoch_start_offset(self) -> int:
        """The log end offset at which the leader's epoch began."""

    @property
    def high_watermark(self) -> int: ...

    @property
    def min_in_sync(self) -> int:
        """Number of copies that are enough now."""

    @property
    def limits(self) -> Limits:
        """The topic's settings."""


class Wait:
    """Not complete yet, no error."""


class Refuse(NamedTuple):
    code: ErrorCode


class Yes:
    """Complete."""


YES = Yes()
WAIT = Wait()
Verdict = Yes | Wait | Refuse
