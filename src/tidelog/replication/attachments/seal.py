"""How a leader ends the log of a partition before its topic changes to another mode. It must be known which
replicas hold the whole log, and nothing may be committed afterwards that they lack.

A primary only *pauses*: it accepts no more records until enough of its backups hold everything it has, and
proposes those as the in-sync set. No other replica can lead in the meantime. If the primary dies, it pauses
again when it is back.

Where the replicas vote, another leader may be elected at any time. So the leader ends the log with a *seal*,
a control record that consumers skip:

======================== =====================================================================================
a log that ends in a     accepts no more records, in whatever epoch its replica is elected; only leader-change
seal                     and voter-set records may follow the seal
the high watermark       never passes the seal: so a replica that holds the seal holds everything that will
                         ever be committed, and any replica can drop what follows it
a majority has the seal  the leader proposes the replicas that hold its whole log as the in-sync set; the
                         controllers appoint one of them leader, in an epoch far above those of the voters
======================== =====================================================================================

A crash at any point leaves either a log without a seal, which the next leader seals, or one whose seal is not
on a majority: the next leader lacks it (and seals again) or commits it. A seal counts only for the period in
which it was written: ``since_epoch`` is the leader epoch in which the partition's replicas began to vote.

Known gap: retention may delete a seal together with all other records while the controllers are unavailable.
The leader that is elected then seals again, unless it has never received the request to change the mode.
"""

import logging
from typing import TYPE_CHECKING, ClassVar

from tidelog.errors import StorageError, TidelogError
from tidelog.protocol import batch as batches
from tidelog.protocol.records import ControlType, control_type, decode_batch
from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.replica import Role

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)

RECHECK_MS = 20
# may follow a seal at the end of the log
_BEHIND_SEAL = frozenset({ControlType.LEADER_CHANGE, ControlType.KRAFT_VOTERS})


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


class Pausing(NoSeal):
    """For a replica in a mode where no other replica can lead before the change."""

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver
        self._services = driver.services
        self._looking = False
        self.wanted = False  # The topic is to change to another mode.
        self.since_epoch = 0

    def update(self, *, wanted: bool, since_epoch: int) -> None:
        changed = since_epoch != self.since_epoch
        self.wanted, self.since_epoch = wanted, since_epoch
        if self._driver.replica.role is not Role.LEADER:
            return
        if changed:
            try:
                self.found()  # The seal may be from an earlier period.
            except TidelogError as error:
                logger.error("%s: %s", self._driver.key, error.message)
                return
        self.began()

    def began(self) -> None:
        self._end()
        self._look_soon()

    def _end(self) -> None:
        """Seal the log here, or end the pause."""
        replica = self._driver.replica
        if self.wanted != (replica.sealed_end_offset is not None):
            replica.seal(replica.log.end_offset if self.wanted else None)

    # --- telling the controllers ----------------------------------------------------------------------------

    def _look_soon(self) -> None:
        if self._driver.replica.sealed_end_offset is not None and not self._looking:
            self._looking = True
            self._services.soon(self._look)

    def _look(self) -> None:
        driver = self._driver
        replica = driver.replica
        if (
            driver.closed
            or driver.seal is not self
            or replica.role is not Role.LEADER
            or replica.sealed_end_offset is None
        ):
            self._looking = False
            return
        if not self._services.perturb("late seal"):
            driver.run(replica.propose_holders())
        self._services.later(RECHECK_MS, self._look)


class Sealing(Pausing):
    """The end is recorded in the log, so every leader elected later keeps it."""

    def found(self) -> None:
        self._driver.replica.seal(seal_at_end(self._driver.log, self.since_epoch))

    def _end(self) -> None:
        driver = self._driver
        if not self.wanted or driver.replica.sealed_end_offset is not None:
            return
        try:
            driver.write_control(ControlType.SEAL, b"")
        except TidelogError:
            return  # The log has failed, which is reported elsewhere. Another replica will lead and seal.
        driver.replica.seal(driver.log.end_offset)


def seal_at_end(log: "Log", since_epoch: int) -> int | None:
    """Exclusive end offset of the seal at the end of this log, or None. Raises StorageError."""
    offset = log.end_offset - 1
    while offset >= log.start_offset:
        region = log.read(offset, batches.HEADER_SIZE, log.end_offset, at_least_one_batch=True)
        try:
            header = batches.parse_header(region.file.read_at(region.position, batches.HEADER_SIZE))
            if not header.is_control:
                return None
            (record, *_) = decode_batch(region.read())
        except OSError as error:
            raise StorageError(f"cannot read the end of {log.directory}: {error}") from error
        kind = control_type(record.key)
        if kind == ControlType.SEAL:
            return header.base_offset + 1 if header.leader_epoch >= since_epoch else None
        if kind not in _BEHIND_SEAL:
            return None
        offset = header.base_offset - 1
    return None
