"""The voter sets of a log, which are in the log itself, where replicas vote.

Every replica uses a set as soon as it is in its log. The leader writes new sets: one voter more or less at a
time, the next only when the last is committed, and none before a record of the leader's own epoch is
committed. Until then it may not know of a change that its predecessor made.

What triggers a change, and what must be on disk before a set counts, differs: see
:mod:`tidelog.broker.metadata.voters` and :mod:`tidelog.broker.quorum.voters`.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from tidelog.invariant import invariant
from tidelog.replication.attachments.attachment import Attachment
from tidelog.replication.election import Election
from tidelog.replication.replica import Role
from tidelog.replication.voters import VoterHistory, VoterSet, encode_batch_of
from tidelog.services import Services, ignore

if TYPE_CHECKING:
    from tidelog.replication.driver import ReplicaDriver

logger = logging.getLogger(__name__)


class NoVoters(Attachment):
    """Only logs whose replicas vote have voter sets."""

    __slots__ = ()

    slot: ClassVar[str] = "voters"


class LogVoters(NoVoters):
    """The voter sets of one replica's log."""

    def __init__(
        self,
        driver: "ReplicaDriver",
        election: Election,
        history: VoterHistory,
        services: Services,
        on_change: Callable[[VoterSet], None] = ignore,
    ) -> None:
        self._driver = driver
        self._election = election
        self.history = history
        self._services = services
        self._on_change = on_change
        self._my_id = driver.replica.me

    @property
    def latest(self) -> VoterSet:
        return self.history.latest

    @property
    def _log_name(self) -> object:
        """For log lines."""
        return self._driver.key

    # --- following the log ----------------------------------------------------------------------------------

    def _take_force(self) -> None:
        """Put the latest set in force."""
        voters = self.latest
        logger.info("%s: the voters are %s from now on", self._log_name, sorted(voters.ids))
        self._election.change_voters(voters, self._services.uptime_ms(), needed=self.is_needed())
        self._driver.change_replicas(tuple(sorted(voters.ids)))
        self._on_change(voters)

    def is_needed(self) -> bool:
        """Whether this replica is a voter in the set before the latest, and the latest is not committed
        yet.
        """
        latest_offset = self.history.latest_offset
        if latest_offset < self._driver.replica.high_watermark:
            return False
        return self._voted_in(self.history.before(latest_offset))

    def _voted_in(self, earlier: VoterSet) -> bool:
        """Whether this replica is a voter of the set before the latest."""
        return self._my_id in earlier

    # --- leading --------------------------------------------------------------------------------------------

    @property
    def is_committed(self) -> bool:
        """Whether this replica leads, and the latest set is committed and known to be the latest, so that it
        may be changed.
        """
        replica = self._driver.replica
        return (
            replica.role is Role.LEADER
            and replica.high_watermark > replica.epoch_start_offset
            and self.history.latest_offset < replica.high_watermark
        )

    def step_down(self) -> None:
        """Resign. The leader was elected before it knew that it is not a voter any more, and has made sure
        that all others know.
        """
        self._driver.voter.elect(self._election.resign(self._services.uptime_ms()))

    def _has_caught_up(self, voter_id: int, directory: UUID | None = None) -> bool:
        """Whether it holds everything committed, with this disk if one is given, and was heard a moment
        ago.
        """
        seen = self._driver.voter.seen.get(voter_id)
        if seen is None or directory not in (None, seen.directory):
            return False
        age_ms = self._services.uptime_ms() - seen.progress.fetched_ms
        behind = seen.progress.end_offset < self._driver.replica.high_watermark
        return not behind and age_ms <= self._election.timing.silence_ms

    def _could_decide(self, voters: VoterSet) -> bool:
        """Whether a majority of this set is alive: otherwise this change would be the last decision that can
        ever be made.
        """
        now_ms, me = self._services.uptime_ms(), self._my_id
        alive = [each for each in voters.ids if each == me or not self._election.is_silent(each, now_ms)]
        return len(alive) >= voters.majority

    def _write(self, voters: VoterSet) -> None:
        """Raises StorageError."""
        invariant(voters.is_safe_after(self.latest), "one voter at a time", voters, self.latest)
        driver, now_ms = self._driver, self._services.now_ms()
        offset = driver.log.end_offset
        self._writing(offset, voters)
        batch = encode_batch_of(voters, offset, driver.replica.epoch, now_ms)
        driver.append(memoryview(batch), offset, now_ms, now_ms)
        self._written(offset, voters)

    def _writing(self, offset: int, voters: VoterSet) -> None:
        """Called before a set is written to the log. Raises StorageError."""

    def _written(self, offset: int, voters: VoterSet) -> None:
        """Called when it is in the log."""
