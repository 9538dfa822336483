"""Deletion of records on request (DeleteRecords), and the offset before which a deletion is permanent."""

from struct import Struct
from typing import TYPE_CHECKING, ClassVar

from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.records import ControlType
from tidelog.replication.attachments.attachment import Attachment

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

LOG_START = Struct(">hq")  # version, offset before which all records are deleted
LOG_START_VERSION = 0


class Deletions(Attachment):
    """Each replica deletes when it learns of the deletion. It is permanent when all that may lead next have
    done so, and have recorded it: a process that is killed must not bring the records back. Replicas that are
    not heard are not waited for: they raise their log start when they follow again, before they can lead.
    """

    slot: ClassVar[str] = "deletions"

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver

    def delete_before(self, offset: int) -> int:
        """Delete all records before ``offset``, which must be committed. Returns the end offset that has to
        be committed before the deletion is permanent under any next leader. Raises TidelogError.
        """
        self._driver.begin_at(offset)
        return 0

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of a replica that may lead next: no successor has records from before
        it.
        """
        driver = self._driver
        able = self._able()
        starts = [
            progress.log_start_offset
            for follower, progress in driver.replica.progress.items()
            if follower in able and self._is_awaited(follower)
        ]
        return min((driver.log.kept_start_offset, *starts))

    def _is_awaited(self, follower: int) -> bool:
        """Whether a deletion is not permanent before this follower, which may lead next, has deleted."""
        return self._driver.listener.is_followed_by(self._driver, follower)

    def _able(self) -> frozenset[int]:
        """The replicas that may lead next without an unclean election. A proposed member may be a member by
        now without our knowledge.
        """
        return self._driver.replica.maximal_in_sync | self._driver.successors.complete


class MemberDeletions(Deletions):
    """A replica that is not heard may be appointed as long as it is a member or eligible, so it is waited
    for. It is removed from the in-sync set if it does not come back.
    """

    def _is_awaited(self, follower: int) -> bool:
        return True


class CopiedDeletions(Deletions):
    """A replica that leads next must have heard of everything acknowledged before. With one or two copies it
    has to hear the last leader, or all there is (``restorer.has_heard_enough``), and so hears of the
    deletion. With more copies it may do without the last leader: then as many replicas must have deleted as
    an acknowledgement needs copies.

    While the log is sealed nothing more is deleted. A replica that was proposed as a member of the next mode
    has heard of every deletion from before; it may lead by now without our knowledge.
    """

    def delete_before(self, offset: int) -> int:
        if self._driver.replica.sealed_end_offset is not None:
            raise TidelogError("no writes are accepted now", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return super().delete_before(offset)

    @property
    def low_watermark(self) -> int:
        replica = self._driver.replica
        counted = (each for follower, each in replica.progress.items() if follower not in replica.uncounted)
        copies = replica.min_in_sync if replica.min_in_sync > 2 else 1
        starts = sorted((self._driver.log.kept_start_offset, *(each.log_start_offset for each in counted)))
        return min(super().low_watermark, starts[-min(copies, len(starts))])


class LoggedDeletions(Deletions):
    """A deletion is a record of its own. Where a member that was not heard may be elected, it is certain to
    know only what is in the log.

    This replica has raised its log start in the same turn, and a follower does so with what it fetches: a
    replica that holds the record has no records from before the new log start.
    """

    def __init__(self, driver: "ReplicaDriver") -> None:
        super().__init__(driver)
        self._deleted_before = 0  # offset up to which a record of this leadership says that all is deleted

    def role_ended(self) -> None:
        self._deleted_before = 0

    def delete_before(self, offset: int) -> int:
        driver = self._driver
        if offset > self._deleted_before:
            refusal = driver.replica.before_append(-1)
            if refusal is not ErrorCode.NONE:
                raise TidelogError("no writes are accepted now", refusal)
            driver.write_control(ControlType.LOG_START, LOG_START.pack(LOG_START_VERSION, offset))
            self._deleted_before = offset
        driver.begin_at(offset)
        return driver.log.end_offset
