"""Records of a replica that are not what was written, or are gone: what is found, told, and dropped.

One with damaged records is repaired: somebody else leads, and this replica counts for nothing, before it
drops what is damaged and fetches it again. Who decides when is :mod:`tidelog.broker.node.failed_logs`.
"""

import logging
from typing import TYPE_CHECKING

from tidelog.errors import StorageError
from tidelog.replication.replica import Role
from tidelog.types import NO_BROKER

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)


class Damage:
    """Of one replica."""

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver
        self.offset: int | None = None  # of the first record that is not what was written
        self.is_cut = False  # Whether the damage was found at the start: it is cut off already.
        self.is_short = False  # Whether it was found because a follower has more: the end is missing.

    def found(self, offset: int, reason: str, *, is_short: bool = False) -> None:
        """Records from ``offset`` on cannot be relied on. Everything else is still served. ``is_short``: the
        log is right up to there, and newer records are missing.
        """
        driver = self._driver
        if driver.closed or (self.offset is not None and self.offset <= offset):
            return
        logger.error("%s: damaged from offset %s on: %s", driver.key, offset, reason)
        self.offset = offset
        self.is_short = is_short
        driver.listener.damaged(driver)

    def came_back(self) -> None:
        """The log lost records before it was opened. Until the controllers know, this replica counts for
        nothing: it neither votes, nor is its broker let in.
        """
        self.is_cut = True
        self.found(self._driver.log.end_offset, self._driver.log.damage)

    def is_known(self) -> None:
        """The controllers remember that records are missing: what is left may be used."""
        self.is_cut = self.is_short = False
        self.offset = None
        self._driver.log.damage_is_known()

    # --- a leader -------------------------------------------------------------------------------------------

    def resign_if_copied(self) -> bool:
        """Stop leading in a moment in which a backup holds everything; False when there is none now."""
        replica = self._driver.replica
        if replica.role is Role.LEADER:
            if not replica.is_copied():
                return False
            self._follow_nobody()
        return True

    def step_back(self, high_watermark: int) -> None:
        """Lead no more, and gather what is missing before it does so again. What we have written meanwhile
        goes, as long as nothing of it is confirmed: it stands where confirmed records were.
        """
        replica = self._driver.replica
        is_confirmed = replica.high_watermark > replica.epoch_start_offset
        whole_before = self._driver.log.end_offset if is_confirmed else replica.epoch_start_offset
        self._follow_nobody()
        if self.is_short:
            self.offset = None  # Of an earlier epoch. What was confirmed since is not dropped.
        self.found(whole_before, f"a follower has confirmed records up to {high_watermark}", is_short=True)

    def _follow_nobody(self) -> None:
        replica = self._driver.replica
        self._driver.follow(replica.epoch, NO_BROKER, replica.replicas, replica.partition_epoch)

    # --- a follower -----------------------------------------------------------------------------------------

    def repair(self) -> None:
        """Drop what is damaged and everything behind it: the leader has it. Only once nobody counts on this
        replica any more, because it holds less than was committed from here on.
        """
        driver = self._driver
        if self.offset is None or driver.replica.role is not Role.FOLLOWER:
            return
        for each in driver.attached:
            each.dropping()
        try:
            # Of two batches that do not follow each other, both are in doubt.
            offset = driver.log.whole_to(self.offset)
        except StorageError as error:
            driver.fail(error)
            return
        self.offset, self.is_short = None, False  # To drop it may show more of it.
        driver.drop_from(offset)
