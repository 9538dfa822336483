"""Records that are deleted on request, and from where on that is sure to last."""

from struct import Struct
from typing import TYPE_CHECKING, ClassVar

from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.records import ControlType
from tidelog.replication.attachments.attachment import Attachment

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

LOG_START = Struct(">hq")  # version, the offset before which all is deleted
LOG_START_VERSION = 0


class Deletions(Attachment):
    """Each member deletes when it hears of it. It lasts when all members have been heard."""

    slot: ClassVar[str] = "deletions"

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver

    def delete_before(self, offset: int) -> int:
        """Delete all records before an offset that is committed. The end offset that has to be committed
        before that is sure to stay so, whoever leads next. Raises TidelogError.
        """
        self._driver.begin_at(offset)
        return 0

    @property
    def low_watermark(self) -> int:
        """Whoever succeeds this replica has nothing from before: the lowest start of a member's log. A member
        that is not heard of may be the next leader for as long as it is one. Where such members stay for
        ever, they are not waited for: they raise theirs when they follow again.
        """
        driver = self._driver
        replica = driver.replica
        starts, leave = [driver.log.start_offset], replica.policy.drops_laggards
        for member, progress in replica.progress.items():
            if member not in replica.maximal_in_sync:
                continue
            if leave or driver.listener.is_followed_by(driver, member):
                starts.append(progress.log_start_offset)
        return min(starts)


class LoggedDeletions(Deletions):
    """A deletion is a record itself: where a member that was not heard of may be elected, only what is in the
    log is sure to be known to it.

    This replica has raised its start in the same turn, and a follower does so with what it fetches: whoever
    holds the record has no records from before.
    """

    def __init__(self, driver: "ReplicaDriver") -> None:
        super().__init__(driver)
        self._deleted_before = 0  # Up to where a record of this leadership says that all is deleted.

    def role_ended(self) -> None:
        self._deleted_before = 0

    def delete_before(self, offset: int) -> int:
        driver = self._driver
        if offset > self._deleted_before:
            refusal = driver.replica.before_append(-1)
            if refusal is not ErrorCode.NONE:
                raise TidelogError("nothing can be written now", refusal)
            driver.write_control(ControlType.LOG_START, LOG_START.pack(LOG_START_VERSION, offset))
            self._deleted_before = offset
        driver.begin_at(offset)
        return driver.log.end_offset
