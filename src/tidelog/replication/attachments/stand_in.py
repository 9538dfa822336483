"""Readers while nobody leads: who serves them, and what a leader owes to those that did. Also leaders that
lack what a follower knows to be committed.
"""

from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.replica import Role
from tidelog.types import NO_BROKER

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver


class NoStandIn(Attachment):
    """Somebody else is made leader instead: nobody stands in."""

    slot: ClassVar[str] = "stand_in"
    # Whether a reader goes back to the leader when there is one again, unless it means this replica.
    sends_readers_back: ClassVar[bool] = False

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver

    @property
    def serves(self) -> bool:
        """Readers come here while nobody leads."""
        return False

    def told(self, serves: bool) -> None:
        """By the metadata: whether this replica stands in."""

    def stand_in(self, acted_epoch: int) -> None:
        """The last leader that could confirm anything did so in ``acted_epoch``."""

    def is_behind(self, follower: int, last_epoch: int) -> bool:
        """A follower of this replica, whose newest record is of ``last_epoch``, has heard that records are
        confirmed which are missing here. Whether it is right, and this replica shall lead no more.
        """
        return False

    @property
    def gathers_when_it_leads(self) -> bool:
        """Whether what is dropped while nobody leads comes back from others before this replica leads."""
        return False

    def _has_lost_records(self, last_epoch: int) -> bool:
        """Our disk has lost them, and nobody told the controllers. To answer would be to have the last copy
        cut off.
        """
        return self._driver.replica.role is Role.LEADER and last_epoch >= self._driver.unclean_epoch


class AnyMember(NoStandIn):
    """The controllers appoint a replica that is complete, as far as they know. One whose disk reports syncs
    that it has not done is not, and does not know either.
    """

    def is_behind(self, follower: int, last_epoch: int) -> bool:
        """Only if the controllers consider the follower complete, too: then it leads instead, and nothing is
        committed without it meanwhile. Any other follower stops, and an operator decides: records may have
        been committed since where it has others, and without us there may be nobody to lead.
        """
        return self._has_lost_records(last_epoch) and follower in self._driver.successors.complete

    @property
    def gathers_when_it_leads(self) -> bool:
        """Who has stepped back is complete no more: another one leads next, who is."""
        replica = self._driver.replica
        return self._driver.damage.is_short and replica.has_resigned(replica.epoch) and replica.leader < 0


class AnyVoter(NoStandIn):
    """Where replicas vote, each of them can be read: what is known to be committed stays so, whoever is
    elected. What an elected leader lacks a majority has forgotten, and to step back would not bring it back.
    """

    sends_readers_back = True

    @property
    def serves(self) -> bool:
        replica = self._driver.replica
        return replica.role is Role.FOLLOWER and replica.leader == NO_BROKER


class Backup(NoStandIn):
    """One backup serves readers; nobody leads in the primary's place. What the primary has lost is there."""

    sends_readers_back = True

    def __init__(self, driver: "ReplicaDriver") -> None:
        super().__init__(driver)
        self._serves = False

    @property
    def serves(self) -> bool:
        return self._serves

    def told(self, serves: bool) -> None:
        self._serves = serves

    def stand_in(self, acted_epoch: int) -> None:
        if self._serves:
            self._driver.run(self._driver.replica.stand_in(acted_epoch))

    def is_behind(self, follower: int, last_epoch: int) -> bool:
        return self._has_lost_records(last_epoch)

    @property
    def gathers_when_it_leads(self) -> bool:
        replica = self._driver.replica
        return replica.role is Role.FOLLOWER and replica.leader < 0
