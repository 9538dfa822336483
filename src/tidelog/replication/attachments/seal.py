"""How a leader ends the log before its topic changes to another mode; see
:mod:`tidelog.replication.sealing`.
"""

from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver


class NoSeal(Attachment):
    """Nothing to do: the controllers know which replicas hold everything."""

    __slots__ = ()

    slot: ClassVar[str] = "seal"
    since_epoch: int = 0  # leader epoch in which the partition came to this mode

    def __init__(self, driver: "ReplicaDriver") -> None: ...

    def update(self, *, wanted: bool, since_epoch: int) -> None:
        """The metadata changed. ``wanted``: the topic is to change to another mode."""

    def found(self) -> None:
        """This replica is about to lead: a log that ends in a seal stays sealed. Raises StorageError."""

    def began(self) -> None:
        """This replica leads, and its leader-change record is written."""
