"""One module per replication mode. Nothing outside asks which mode a topic has; it asks the topic's
policy.
"""

from typing import Protocol

from tidelog.errors import ErrorCode
from tidelog.replication.policies.isr import IsrPolicy
from tidelog.replication.policies.primary_backup import PrimaryBackupPolicy
from tidelog.replication.policies.quorum import QuorumPolicy
from tidelog.replication.view import Refuse, Verdict, View


class Policy(Protocol):
    @property
    def tracks_in_sync(self) -> bool:
        """Whether the leader keeps an in-sync set with the controller's help."""

    @property
    def drops_laggards(self) -> bool:
        """Whether a member that does not keep up is thrown out."""

    @property
    def newest_log_wins(self) -> bool:
        """Whether, of logs of which none is known to be whole, the one with the newest record is gone on
        with. Otherwise logs that part are an operator's matter.
        """

    @property
    def too_late(self) -> ErrorCode:
        """What a produce hears whose time is up while it waits for copies."""

    def committed(self, view: View) -> int:
        """Where the high watermark may stand; the replica never moves it back."""

    def commits_alone(self, view: View) -> bool:
        """Whether what the leader appends is committed without anybody else."""

    def before_append(self, view: View, acks: int) -> Refuse | None:
        """A refusal before anything is written, or None."""

    def acknowledged(self, view: View, end_offset: int, acks: int) -> Verdict:
        """Is the produce whose last record ends at ``end_offset`` done?"""


BY_NAME: dict[str, Policy] = {
    "isr": IsrPolicy(),
    "primary-backup": PrimaryBackupPolicy(),
    "quorum": QuorumPolicy(),
}
"""``replication.mode`` → its policy."""
