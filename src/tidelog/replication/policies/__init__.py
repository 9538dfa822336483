"""One module per replication mode. The rest of the code never checks which mode a topic has; it uses the
topic's policy. Which mode has which policy is in :mod:`tidelog.replication.modes`.
"""

from typing import Protocol

from tidelog.errors import ErrorCode
from tidelog.replication.view import Refuse, Verdict, View


class Policy(Protocol):
    @property
    def tracks_in_sync(self) -> bool:
        """Whether the leader maintains an in-sync set, confirmed by the controller."""

    @property
    def drops_laggards(self) -> bool:
        """Whether a member that does not keep up is removed from the in-sync set."""

    @property
    def newest_log_wins(self) -> bool:
        """Whether the log with the newest record is kept when no log is known to be complete. Otherwise an
        operator decides between logs that diverge.
        """

    @property
    def too_late(self) -> ErrorCode:
        """The error of a produce that expires while it waits for copies."""

    def committed(self, view: View) -> int:
        """The offset to which the high watermark may advance. A lower one than the present has no
        effect.
        """

    def commits_alone(self, view: View) -> bool:
        """Whether an append by the leader is committed without any other replica."""

    def before_append(self, view: View, acks: int) -> Refuse | None:
        """The reason to refuse a produce before it is written, or None."""

    def acknowledged(self, view: View, end_offset: int, acks: int) -> Verdict:
        """Whether the produce whose last record ends at ``end_offset`` is complete."""
