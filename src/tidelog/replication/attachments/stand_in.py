"""Readers while there is no leader: which replica serves them, and what the next leader must keep. Also
leaders that lack what a follower knows to be committed.
"""

from typing import TYPE_CHECKING, ClassVar

from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.replica import Role
from tidelog.types import NO_BROKER

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver


class NoStandIn(Attachment):
    """No stand-in: another replica becomes leader instead."""

    slot: ClassVar[str] = "stand_in"
    # Whether readers are sent back to the leader when there is one again, unless they ask for this replica.
    sends_readers_back: ClassVar[bool] = False

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver

    @property
    def serves(self) -> bool:
        """Whether this replica serves readers while there is no leader."""
        return False

    @property
    def is_outdated(self) -> bool:
        """Whether readers must not read here, because records known to be committed may be given up."""
        return False

    def told(self, serves: bool) -> None:
        """The metadata says whether this replica is the stand-in."""

    def stand_in(self, acted_epoch: int) -> None:
        """The last leader that could commit anything did so in ``acted_epoch``."""

    def is_behind(self, follower: int, last_epoch: int) -> bool:
        """A follower, whose newest record is of ``last_epoch``, knows committed records that are missing
        here. Returns whether this replica has lost them and must stop leading.
        """
        return False

    @property
    def gathers_when_it_leads(self) -> bool:
        """Whether records dropped while there is no leader are copied back from backups before this replica
        leads.
        """
        return False

    def _has_lost_records(self, last_epoch: int) -> bool:
        """Our disk has lost the records without the controllers' knowledge. A response would make the
        follower truncate the last copy.
        """
        return self._driver.replica.role is Role.LEADER and last_epoch >= self._driver.unclean_epoch


class _Told(NoStandIn):
    """The table of partitions says whether this replica serves readers."""

    def __init__(self, driver: "ReplicaDriver") -> None:
        super().__init__(driver)
        self._serves = False

    @property
    def serves(self) -> bool:
        return self._serves

    def told(self, serves: bool) -> None:
        self._serves = serves

    @property
    def is_outdated(self) -> bool:
        """There was an unclean election or a forced promotion, perhaps in an earlier mode of the topic, and
        no leader that came after it has confirmed our log: some of our records may be given up. Only while
        there is no leader: with one, the next fetch drops them. Leaders write no record of their epoch, so a
        restarted replica may not know that it was confirmed.
        """
        replica = self._driver.replica
        confirmed = max(replica.last_epoch, replica.watermark.agreed[0])
        return self._serves and confirmed < self._driver.unclean_epoch


class AnyMember(_Told):
    """The controllers appoint a replica that is complete, as far as they know. One whose disk reports syncs
    that it has not done is not, and does not know either.

    While a majority of the controllers has ended, members serve readers what they know to be committed: any
    leader that is appointed later holds it, unless records are given up.
    """

    def is_behind(self, follower: int, last_epoch: int) -> bool:
        """Only if the controllers consider the follower complete, too: then it leads next, and nothing is
        committed without it until then. Any other follower stops, and an operator decides: it may have other
        records where some were committed since, and without us there may be no leader.
        """
        return self._has_lost_records(last_epoch) and follower in self._driver.successors.complete

    @property
    def gathers_when_it_leads(self) -> bool:
        """A replica that stepped down is not complete; the next leader is."""
        replica = self._driver.replica
        return self._driver.damage.is_short and replica.has_resigned(replica.epoch) and replica.leader < 0


class AnyVoter(NoStandIn):
    """Where replicas vote, each of them can be read: what is known to be committed stays committed under any
    leader. If an elected leader lacks such records, a majority has lost them, and stepping down would not
    bring them back.
    """

    sends_readers_back = True

    @property
    def serves(self) -> bool:
        replica = self._driver.replica
        return replica.role is Role.FOLLOWER and replica.leader == NO_BROKER

    @property
    def is_outdated(self) -> bool:
        """An operator has chosen another log, and no leader that came after that has confirmed ours: it is
        not known which of our records it contains. Every elected leader writes a record of its epoch, so the
        log itself shows the confirmation, also after a restart.
        """
        replica = self._driver.replica
        return max(replica.last_epoch, replica.watermark.agreed[0]) < self._driver.unclean_epoch


class Backup(_Told):
    """One backup serves readers, but no backup becomes leader instead of the primary. It holds what the
    primary has lost.
    """

    sends_readers_back = True

    def stand_in(self, acted_epoch: int) -> None:
        if self._serves:
            self._driver.run(self._driver.replica.stand_in(acted_epoch))

    def is_behind(self, follower: int, last_epoch: int) -> bool:
        return self._has_lost_records(last_epoch)

    @property
    def gathers_when_it_leads(self) -> bool:
        replica = self._driver.replica
        return replica.role is Role.FOLLOWER and replica.leader < 0
