"""Changes of the voters of the metadata log while the cluster runs. How voter sets are read from and written
to a log is in :mod:`tidelog.replication.attachments.voters`.

=================== ====================================================================================
change              when
=================== ====================================================================================
a voter is added    on request, once it has all committed records: before, it could only delay commits
a voter is removed  on request; a leader that removed itself resigns when the change is committed
a disk is learnt    automatically: the settings contain only the ids and addresses of voters
an address changes  automatically (the leader's own), or on request of the voter
a voter came back   automatically, in two steps: it is removed and then, when that is committed and it has
with another disk   caught up, added with its new disk. With a single step, the old disk, if it was put
                    back, could form a majority with a voter that does not know the new set yet.
=================== ====================================================================================
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tidelog.errors import ErrorCode, StorageError, TidelogError
from tidelog.replication.attachments.voters import LogVoters
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import Election
from tidelog.replication.replica import Role
from tidelog.replication.voters import Voter, VoterHistory, VoterSet, sets_in
from tidelog.services import Services

logger = logging.getLogger(__name__)

Done = Callable[[TidelogError | None], None]
Change = Callable[[VoterSet], VoterSet | None]
"""The set after a change; None if the change must wait. Raises TidelogError to refuse it."""


class VoterChange(NamedTuple):
    """A requested change that is pending."""

    change: Change
    deadline_ms: int
    timeout_message: str  # the error message after the timeout
    done: Done


class MetadataVoters(LogVoters):
    def __init__(
        self,
        driver: ReplicaDriver,
        election: Election,
        history: VoterHistory,
        me: Voter,
        services: Services,
        on_change: Callable[[VoterSet], None],
    ) -> None:
        super().__init__(driver, election, history, services, on_change)
        self._me = me
        self._requested: deque[VoterChange] = deque()
        election.set_needed(self.is_needed())

    @property
    def pending(self) -> int:
        """The number of requested changes that are not written yet."""
        return len(self._requested)

    # --- following the log ----------------------------------------------------------------------------------

    def appended(self, batches: memoryview) -> None:
        for offset, voters in sets_in(batches):
            self.history.appended(offset, voters)
            self._take_force()

    def cut(self, end_offset: int) -> None:
        if self.history.cut(end_offset):
            self._take_force()

    def restarted(self, voters: VoterSet) -> None:
        """A snapshot has replaced the log."""
        self.history.restart(voters)
        self._take_force()

    @property
    def _log_name(self) -> object:
        return "the metadata log"

    def _voted_in(self, earlier: VoterSet) -> bool:
        me = self._me
        if me.voter_id in self.latest:
            # This node is a voter, or its earlier disk was: an earlier set may not contain disks yet.
            return False
        return earlier.counts(me.voter_id, me.directory)

    # --- leading --------------------------------------------------------------------------------------------

    def committed(self) -> None:
        """The high watermark has moved."""
        self._election.set_needed(self.is_needed())
        if not self.is_committed:
            return
        if self._me.voter_id not in self.latest:
            logger.info("this node is no longer a controller: it resigns")
            self.step_down()
            return
        self.tick()

    def role_changed(self) -> None:
        if self._driver.replica.role is not Role.LEADER:
            requested, self._requested = self._requested, deque()
            for change_request in requested:
                change_request.done(_not_leading())

    def tick(self) -> None:
        """Continue with pending changes."""
        if self._driver.replica.role is not Role.LEADER:
            return
        now_ms = self._services.uptime_ms()
        self._expire(now_ms)
        if not self.is_committed:
            return
        try:
            wanted = self._learnt() or self._returned() or self._forgotten(now_ms)
            if wanted is not None:
                self._write(wanted)
            else:
                self._grant()
        except StorageError as error:
            logger.error("the set of controllers cannot be changed: %s", error.message)

    def _expire(self, now_ms: int) -> None:
        for change_request in [
            change_request for change_request in self._requested if change_request.deadline_ms <= now_ms
        ]:
            self._requested.remove(change_request)
            change_request.done(TidelogError(change_request.timeout_message, ErrorCode.REQUEST_TIMED_OUT))

    def _grant(self) -> None:
        """Write the first pending change that is possible now."""
        for change_request in list(self._requested):
            try:
                wanted = change_request.change(self.latest)
            except TidelogError as refusal:
                self._requested.remove(change_request)
                change_request.done(refusal)
                continue
            if wanted is not None and self._could_decide(wanted):
                self._requested.remove(change_request)
                self._write_for(change_request, wanted)
                return

    def _write_for(self, change_request: VoterChange, voters: VoterSet) -> None:
        """Raises StorageError."""
        driver = self._driver
        try:
            self._write(voters)
        except StorageError as error:
            change_request.done(error)
            raise
        driver.wait(
            driver.log.end_offset, -1, COMMIT_TIMEOUT_MS, lambda code: change_request.done(_outcome(code))
        )

    # --- automatic changes ----------------------------------------------------------------------------------

    def _learnt(self) -> VoterSet | None:
        """The set with newly learnt disks of voters and this node's own address; None if unchanged."""
        return _if_other(VoterSet(map(self._as_known, self.latest), self.latest.returning), self.latest)

    def _as_known(self, voter: Voter) -> Voter:
        if voter.voter_id == self._me.voter_id:
            return self._me if self._me.host else msgspec.structs.replace(voter, directory=self._me.directory)
        seen = self._driver.voter.seen.get(voter.voter_id)
        if voter.directory is None and seen is not None and seen.directory is not None:
            return msgspec.structs.replace(voter, directory=seen.directory)
        return voter

    def _returned(self) -> VoterSet | None:
        """The set with a returning voter, once it has caught up on its new disk."""
        for voter in self.latest.returning:
            if self._has_caught_up(voter.voter_id, voter.directory):
                logger.info("controller %s was readmitted with another disk", voter.voter_id)
                return self.latest.including(voter)
        return None

    def _forgotten(self, now_ms: int) -> VoterSet | None:
        """The set without a voter whose id is now used with another disk, while the old disk is silent."""
        for voter in self.latest:
            seen = self._driver.voter.seen.get(voter.voter_id)
            if seen is None or seen.directory in (None, voter.directory):
                continue
            fresh = msgspec.structs.replace(voter, directory=seen.directory)
            if self._election.is_silent(voter.voter_id, now_ms) and self._has_caught_up(
                fresh.voter_id, fresh.directory
            ):
                logger.warning("controller %s came back with another disk; readmitting it", voter.voter_id)
                return self.latest.without(voter.voter_id, fresh)
        return None

    # --- changes on request ---------------------------------------------------------------------------------

    def add(self, voter: Voter, timeout_ms: int, done: Done) -> None:
        def change(latest: VoterSet) -> VoterSet | None:
            if voter.voter_id in latest:
                raise TidelogError(
                    f"node {voter.voter_id} is a controller already", ErrorCode.DUPLICATE_VOTER
                )
            if not self._has_caught_up(voter.voter_id, voter.directory):
                return None
            # With its disk, also if the request names none: it may have to vote before it has this set, and
            # then relies on a candidate that knows its disk.
            return latest.including(self._as_known(voter))

        timeout_message = (
            f"node {voter.voter_id} has not caught up with the metadata log in time; is it running, and does "
            "its controller.quorum.voters list this cluster's controllers?"
        )
        self._request(change, timeout_ms, timeout_message, done)

    def remove(self, voter: Voter, timeout_ms: int, done: Done) -> None:
        def change(latest: VoterSet) -> VoterSet | None:
            known = latest.get(voter.voter_id)
            if known is None or voter.directory not in (None, known.directory):
                raise TidelogError(f"node {voter.voter_id} is not a controller", ErrorCode.VOTER_NOT_FOUND)
            if len(latest) == 1:
                raise TidelogError("the last controller cannot be removed", ErrorCode.INVALID_REQUEST)
            return latest.without(voter.voter_id)

        self._request(change, timeout_ms, NOT_ENOUGH, done)

    def update(self, voter: Voter, timeout_ms: int, done: Done) -> None:
        """Change the address of a voter."""

        def change(latest: VoterSet) -> VoterSet | None:
            if not latest.counts(voter.voter_id, voter.directory):
                raise TidelogError(f"node {voter.voter_id} is not a controller", ErrorCode.VOTER_NOT_FOUND)
            return latest.including(voter)

        self._request(change, timeout_ms, NOT_ENOUGH, done)

    def _request(self, change: Change, timeout_ms: int, timeout_message: str, done: Done) -> None:
        if self._driver.replica.role is not Role.LEADER:
            done(_not_leading())
            return
        deadline_ms = self._services.uptime_ms() + timeout_ms
        self._requested.append(VoterChange(change, deadline_ms, timeout_message, done))
        self.tick()


COMMIT_TIMEOUT_MS = 10_000
NOT_ENOUGH = (
    "an earlier change of the controllers is not committed, or too few of the remaining controllers run"
)


def _if_other(voters: VoterSet, than: VoterSet) -> VoterSet | None:
    return None if voters == than else voters


def _not_leading() -> TidelogError:
    return TidelogError("this node is not the active controller", ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _outcome(code: ErrorCode) -> TidelogError | None:
    if code is ErrorCode.NONE:
        return None
    if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return TidelogError(
            "the active controller has changed; it is unknown whether the change was committed", code
        )
    return TidelogError("the change was not committed by the controllers in time", code)
