"""Copies back the records that a new leader lacks; usually there is nothing to do."""

from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment

if TYPE_CHECKING:
    from tidelog.replication.messages import TailGot
    from tidelog.replication.restoring import Mandate


class NoRestorer(Attachment):
    """Nothing is copied back."""

    __slots__ = ()

    slot: ClassVar[str] = "restorer"
    gathers: ClassVar[bool] = False  # whether this replica is about to lead and may lack records

    def renewed(self, mandate: "Mandate") -> bool:
        """The metadata of the partition changed. Returns whether a running restoration covers that."""
        return False

    def synced(self) -> None:
        """More of the log is durable than before."""

    def got(self, got: "TailGot") -> None:
        """Another replica has reported its log end offset."""

    def diverged(self, diverging: tuple[int, int]) -> bool:
        """The log that we follow diverges from ours. Returns True if nothing is truncated because of that."""
        return False
