"""What every mode has rules for. A rule that most modes do not need has a default here."""

from collections.abc import Mapping
from typing import ClassVar

from tidelog.errors import ErrorCode
from tidelog.replication.limits import Limits
from tidelog.replication.progress import Progress
from tidelog.replication.view import Refuse, Verdict, View


class Policy:
    # Whether the leader maintains an in-sync set, confirmed by the controller.
    tracks_in_sync: ClassVar[bool]
    # Whether a member that does not keep up is removed from the in-sync set.
    drops_laggards: ClassVar[bool] = False
    # Whether the last member that was complete decides between logs that diverge when no log is known to be
    # complete any more. Otherwise an operator does.
    last_member_decides: ClassVar[bool] = False
    # The error of a produce that expires while it waits for copies.
    too_late: ClassVar[ErrorCode] = ErrorCode.REQUEST_TIMED_OUT

    # --- what is committed ----------------------------------------------------------------------------------

    def committed(self, view: View) -> int:
        """The offset to which the high watermark may advance. A lower one than the present has no effect."""
        raise NotImplementedError

    def commits_alone(self, view: View) -> bool:
        """Whether an append by the leader is committed without any other replica."""
        raise NotImplementedError

    def committed_without_leader(self, view: View, confirmed: int) -> int:
        """The offset to which the high watermark of a follower may advance while there is no leader. The last
        leader that could commit anything held everything before ``confirmed``, which is in the follower's log
        and not below its high watermark.
        """
        return view.high_watermark

    # --- where the number of copies counts ------------------------------------------------------------------

    def may_degrade(self, limits: Limits) -> bool:
        """Whether fewer copies may become enough, so that this must be checked
        (:mod:`tidelog.replication.policies.degrading`).
        """
        return False

    def fewest_copies(self, limits: Limits) -> int:
        """The smallest number of copies that an acknowledgement may have required under these settings."""
        return limits.min_in_sync

    def has_copies_of(self, view: View, end_offset: int, start_offset: int) -> bool:
        """Whether as many replicas as the topic requires hold everything from ``start_offset``, where the
        leader's log begins, to ``end_offset`` and nothing before, the leader being one of them. Asked only
        where ``min.insync.replicas`` was raised or replicas leave.
        """
        return False

    def holders_of_sealed(
        self, view: View, holders: Mapping[int, Progress], start_offset: int
    ) -> tuple[int, ...] | None:
        """Of the followers that hold all of a sealed log, which begins at ``start_offset``, those that may
        lead in another mode; None: wait for more. Where a deletion is a record, all of them have learned of
        every deletion and may lead.
        """
        return tuple(holders)

    # --- what is acknowledged -------------------------------------------------------------------------------

    def before_append(self, view: View, acks: int) -> Refuse | None:
        """The reason to refuse a produce before it is written, or None."""
        return None

    def acknowledged(self, view: View, end_offset: int, acks: int) -> Verdict:
        """Whether the produce whose last record ends at ``end_offset`` is complete."""
        raise NotImplementedError
