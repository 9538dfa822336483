"""How a leader ends its time when its topic is to be replicated in another way; see
:mod:`tidelog.replication.sealing`.
"""

from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver


class NoSeal(Attachment):
    """It need not do anything: others know who holds what."""

    __slots__ = ()

    slot: ClassVar[str] = "seal"
    since_epoch: int = 0  # the leader epoch with which the partition began to be replicated in this mode

    def __init__(self, driver: "ReplicaDriver") -> None: ...

    def update(self, *, wanted: bool, since_epoch: int) -> None:
        """What the metadata says now; ``wanted``: the topic is to be replicated in another way."""

    def found(self) -> None:
        """About to lead: a log that ends in a seal stays as it is. Raises StorageError."""

    def began(self) -> None:
        """Leads, and has written so."""
