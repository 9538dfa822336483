"""The slots of a driver: its attachments, and which of them get which events."""

from typing import TYPE_CHECKING, cast

from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.attachments.deletions import Deletions
from tidelog.replication.attachments.restorer import NoRestorer
from tidelog.replication.attachments.seal import NoSeal
from tidelog.replication.attachments.snapshots import NoSnapshots
from tidelog.replication.attachments.stand_in import NoStandIn
from tidelog.replication.attachments.successors import NoSuccessors
from tidelog.replication.attachments.voter import Appointed
from tidelog.replication.attachments.voters import NoVoters
from tidelog.replication.replica import Replica

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver
    from tidelog.replication.modes import Mode

_NO_VOTERS, _NO_RESTORER, _NO_SNAPSHOTS = NoVoters(), NoRestorer(), NoSnapshots()


class Slots:
    """The attachments are fields of the driver itself, because they are read for every batch."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        driver = cast("ReplicaDriver", self)
        self.voter = Appointed(driver)
        self.voters: Attachment = _NO_VOTERS
        self.restorer = _NO_RESTORER
        self.seal = NoSeal(driver)
        self.snapshots = _NO_SNAPSHOTS
        self.stand_in = NoStandIn(driver)
        self.successors = NoSuccessors(driver)
        self.deletions = Deletions(driver)
        self._mode: Mode | None = None
        self._listen()

    def adopt(self, mode: "Mode") -> None:
        """The partition has this mode from now on."""
        self.replica.set_policy(mode.policy)
        if mode is not self._mode:
            self._mode, driver = mode, cast("ReplicaDriver", self)
            self.seal = mode.seal(driver)
            self.stand_in = mode.stand_in(driver)
            self.successors = mode.successors(driver)
            self.deletions = mode.deletions(driver)
            self._listen()

    def has_adopted(self, mode: "Mode") -> bool:
        return mode is self._mode

    def attach(self, attachment: Attachment) -> None:
        """Put it into its slot, replacing the present attachment."""
        setattr(self, attachment.slot, attachment)
        self._listen()

    def appoint(self) -> None:
        """From now on the controllers appoint the leader."""
        self.voters = _NO_VOTERS
        self.attach(Appointed(cast("ReplicaDriver", self)))

    def end_restoring(self) -> None:
        """This replica leads now, or another one is to lead."""
        if self.restorer.gathers:
            self.restorer.stopped()
            self.attach(_NO_RESTORER)

    def _listen(self) -> None:
        """Collect the attachments. The events of every batch go only to those that override them."""
        self.attached: tuple[Attachment, ...] = (
            self.voter, self.voters, self.restorer, self.seal, self.snapshots, self.stand_in, self.successors,
            self.deletions,
        )  # fmt: skip
        self._on_arriving = self._overriding("arriving")
        self._on_arrived = self._overriding("arrived")
        self._on_appended = self._overriding("appended")
        self._on_taken = self._overriding("taken")

    def _overriding(self, event: str) -> tuple[Attachment, ...]:
        ignored = getattr(Attachment, event)
        return tuple([each for each in self.attached if getattr(type(each), event) is not ignored])
