"""Sees to it that a replica that is to lead gets what it lacks; most of the time there is nothing to do."""

from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment

if TYPE_CHECKING:
    from tidelog.replication.messages import TailGot
    from tidelog.replication.restoring import Mandate


class NoRestorer(Attachment):
    """Nothing is gathered here."""

    __slots__ = ()

    slot: ClassVar[str] = "restorer"
    gathers: ClassVar[bool] = False  # Whether this replica is about to lead, and may lack something.

    def renewed(self, mandate: "Mandate") -> bool:
        """Other news of the partition. Whether they concern what is gathered already."""
        return False

    def synced(self) -> None:
        """More of the log is durable than before."""

    def got(self, got: "TailGot") -> None:
        """Where another replica's log ends."""

    def diverged(self, diverging: tuple[int, int]) -> bool:
        """The log we follow does not go on where ours ends. Whether nothing is dropped for that."""
        return False
