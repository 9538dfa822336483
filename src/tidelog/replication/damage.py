"""Records of a replica that are missing or differ from what was written: finding, reporting and dropping
them.

A damaged replica is repaired in this order: another replica leads, this one is counted neither for commits
nor for votes, and only then it drops the damaged records and fetches them again.
:mod:`tidelog.broker.node.failed_logs` decides when.
"""

import logging
from typing import TYPE_CHECKING

from tidelog.errors import StorageError
from tidelog.replication.copies import is_copied
from tidelog.replication.replica import Role
from tidelog.types import NO_BROKER

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)


class Damage:
    """The damage of one replica."""

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver
        self.offset: int | None = None  # of the first record that differs from what was written
        self.is_cut = False  # The damage was found at startup, and the log is truncated already.
        self.is_short = False  # It was found because a follower has more: the end of the log is missing.

    def found(self, offset: int, reason: str, *, is_short: bool = False) -> None:
        """Records from ``offset`` on cannot be trusted. Earlier ones are still served. ``is_short``: the log
        is right up to there, and newer records are missing.
        """
        driver = self._driver
        if driver.closed or (self.offset is not None and self.offset <= offset):
            return
        logger.error("%s: damaged from offset %s on: %s", driver.key, offset, reason)
        self.offset = offset
        self.is_short = is_short
        driver.listener.damaged(driver)

    def came_back(self) -> None:
        """The log lost records before it was opened. Until the controllers have recorded that, this replica
        does not vote, and its broker stays fenced.
        """
        self.is_cut = True
        self.found(self._driver.log.end_offset, self._driver.log.damage)

    def is_known(self) -> None:
        """The controllers have recorded that records are missing. What is left may be used."""
        self.is_cut = self.is_short = False
        self.offset = None
        self._driver.log.damage_is_known()

    # --- a leader -------------------------------------------------------------------------------------------

    def resign_if_copied(self) -> bool:
        """Stop leading if a member of the in-sync set holds the whole log. Returns False if none does now."""
        replica = self._driver.replica
        if replica.role is Role.LEADER:
            if not is_copied(replica):
                return False
            self._follow_none()
        return True

    def step_back(self, high_watermark: int) -> None:
        """Stop leading, and copy back the missing records before leading again. Records written in this epoch
        are dropped if none of them is committed: they have the offsets of committed records.
        """
        replica = self._driver.replica
        is_confirmed = replica.high_watermark > replica.epoch_start_offset
        whole_before = self._driver.log.end_offset if is_confirmed else replica.epoch_start_offset
        self._follow_none()
        if self.is_short:
            self.offset = None  # Of an earlier epoch. What was committed since is not dropped.
        reason = f"a follower knows of committed records up to {high_watermark}"
        self.found(whole_before, reason, is_short=True)

    def _follow_none(self) -> None:
        replica = self._driver.replica
        self._driver.follow(replica.epoch, NO_BROKER, replica.replicas, replica.partition_epoch)

    # --- a follower -----------------------------------------------------------------------------------------

    def repair(self) -> None:
        """Drop the damaged records and everything after them; the leader has them. Call this only when the
        replica is counted nowhere any more, because afterwards it lacks committed records.
        """
        driver = self._driver
        if self.offset is None or driver.replica.role is not Role.FOLLOWER:
            return
        for each in driver.attached:
            each.dropping()
        try:
            # If two adjacent batches do not fit together, both are suspect.
            offset = driver.log.whole_to(self.offset)
        except StorageError as error:
            driver.fail(error)
            return
        self.offset, self.is_short = None, False  # Dropping may reveal more damage.
        driver.drop_from(offset)
