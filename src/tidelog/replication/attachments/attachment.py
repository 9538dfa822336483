"""The interface of all attachments: the events that the driver reports. The base class ignores all of
them.
"""

from typing import ClassVar


class Attachment:
    """The events of every batch are reported only to attachments that override them, so a replica pays
    nothing for what it does not use.
    """

    __slots__ = ()

    slot: ClassVar[str]  # the field of the driver that holds it

    # --- for every batch ------------------------------------------------------------------------------------

    def arriving(self, batches: memoryview) -> None:
        """Batches from a leader that are not in the log yet. Raises StorageError if they must not be
        appended.
        """

    def arrived(self) -> None:
        """The batches from the leader are in the log."""

    def appended(self, batches: memoryview) -> None:
        """Batches were appended, written by this leader or received from one."""

    def taken(self) -> None:
        """A leader's response is fully processed, high watermark and log start included."""

    # --- occasional -----------------------------------------------------------------------------------------

    def cut(self, end_offset: int) -> None:
        """The log was truncated to ``end_offset``."""

    def skipped(self) -> None:
        """The log continues at a later offset: what was in between is not known."""

    def leader_changes(self) -> None:
        """This replica is about to follow another leader, or the same one in another epoch."""

    def role_ended(self) -> None:
        """Another role has begun, or the same one in another epoch."""

    def failed(self) -> None:
        """The disk accepts no writes."""

    def follower_restarted(self, broker: int, now_ms: int) -> None:
        """A new process of that broker is running."""

    def dropping(self) -> None:
        """Damaged records that were acknowledged are about to be dropped."""

    def dropped(self) -> None:
        """They were dropped, and the log accepts writes."""

    def stopped(self) -> None:
        """The replica is removed."""
