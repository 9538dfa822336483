"""The end of a leader's time when its topic is to be replicated in another way: who holds the whole log must
be known, and nothing may be committed any more that they lack.

A primary only *pauses*: it takes no more records until enough of its backups have all it has, and proposes
those as the in-sync set. Nobody else can lead meanwhile; if it dies, it pauses anew when it is back.

Where the replicas vote, somebody else may be elected at any time. So the leader ends the log with a *seal*, a
control record that consumers skip:

======================== =====================================================================================
whose log ends in a seal takes no more records, in whatever epoch it is elected; leader-change records may
                         follow the seal, and nothing else
the high watermark       never passes the seal: so whoever holds the seal holds all that will ever have been
                         committed, and what follows it can be dropped by anybody
a majority has it        the leader proposes those who hold its whole log as the in-sync set; the controllers
                         make one of them leader in an epoch far above those of the voters
======================== =====================================================================================

A crash at any point leaves a log without a seal, which the next leader seals; or with one that is not on a
majority, which the next leader lacks (and seals again) or commits. A seal counts only for the time it was
written in: ``since_epoch`` is the leader epoch with which the partition began to be replicated by votes.

Known gap: retention may delete a seal together with all other records while the controllers are away. Whoever
is elected then seals again, unless it has never heard of the wish.
"""

import logging
from typing import TYPE_CHECKING

from tidelog.errors import StorageError, TidelogError
from tidelog.protocol import batch as batches
from tidelog.protocol.records import ControlType, control_type, decode_batch
from tidelog.replication.attachments.seal import NoSeal
from tidelog.replication.effects import ProposeInSync
from tidelog.replication.replica import Role

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)

LOOK_AGAIN_MS = 20
# May stand between a seal and the end of the log.
_BEHIND_SEAL = frozenset({ControlType.LEADER_CHANGE, ControlType.KRAFT_VOTERS})


class Pausing(NoSeal):
    """Of one replica that could lead, in a mode that does not end without it."""

    def __init__(self, driver: "ReplicaDriver") -> None:
        self._driver = driver
        self._services = driver.services
        self._looking = False
        self.wanted = False  # The topic is to be replicated in another way.
        self.since_epoch = 0

    def update(self, *, wanted: bool, since_epoch: int) -> None:
        changed = since_epoch != self.since_epoch
        self.wanted, self.since_epoch = wanted, since_epoch
        if self._driver.replica.role is not Role.LEADER:
            return
        if changed:
            try:
                self.found()  # It may be the seal of an earlier time.
            except TidelogError as error:
                logger.error("%s: %s", self._driver.key, error.message)
                return
        self.began()

    def began(self) -> None:
        self._end()
        self._look_soon()

    def _end(self) -> None:
        """The log ends here, or goes on."""
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
        members = None if self._services.perturb("late seal") else self._holders()
        if members is not None and members != replica.proposed:
            replica.propose_holders(members)
            driver.listener.proposed(
                driver, ProposeInSync(members, replica.epoch, replica.partition_epoch, sealed=True)
            )
        self._services.later(LOOK_AGAIN_MS, self._look)

    def _holders(self) -> tuple[int, ...] | None:
        """Who has the whole log, once they are as many as make an ok. Not only the seal: in an earlier time a
        seal may have been followed by something that was committed.
        """
        replica = self._driver.replica
        end_offset = replica.log.end_offset
        if replica.policy.committed(replica) < end_offset:
            return None
        others = [
            follower
            for follower, progress in replica.progress.items()
            if progress.seen and progress.end_offset >= end_offset
        ]
        return (replica.me, *others)


class Sealing(Pausing):
    """So does whoever is elected after it: the end is in the log."""

    def found(self) -> None:
        self._driver.replica.seal(seal_at_end(self._driver.log, self.since_epoch))

    def _end(self) -> None:
        driver = self._driver
        if not self.wanted or driver.replica.sealed_end_offset is not None:
            return
        try:
            driver.write_control(ControlType.SEAL, b"")
        except TidelogError:
            return  # The log has failed, and says so; another one will lead and seal.
        driver.replica.seal(driver.log.end_offset)


def seal_at_end(log: "Log", since_epoch: int) -> int | None:
    """Where the seal ends with which this log does, or None. Raises StorageError."""
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
