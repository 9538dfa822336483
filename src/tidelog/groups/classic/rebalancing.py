"""From a change of members to a new generation.

A rebalance waits until every member has rejoined, but at most for the largest rebalance timeout. Then the
members that have not rejoined are removed. The first rebalance of an empty group always waits for a short
time, and longer while more members join. So members that are started together begin in one generation.

Static members that have not rejoined stay members and keep their partitions, because they may return.
"""

import logging

from tidelog.errors import ErrorCode
from tidelog.groups.classic.membership import GroupMembership, Member
from tidelog.groups.classic.messages import SyncResponse
from tidelog.groups.classic.states import ClassicGroupState
from tidelog.groups.effects import AppendRecords, Effects, Now
from tidelog.groups.pending_writes import NOTHING_FOLLOWS
from tidelog.groups.records import group_record

logger = logging.getLogger(__name__)


class Rebalancing(GroupMembership):
    def _begin(self) -> None:
        self._join_deadline = self._deadlines.new(self._joining_over)
        self._sync_deadline = self._deadlines.new(self._syncing_over)
        self._is_first = False  # this rebalance began in an empty group: it waits for more members
        self._grew = False  # since the wait for more members was restarted
        self._wait_left_ms = 0  # how much longer it can be extended
        self._not_synced: set[str] = set()  # members that have not fetched their assignment yet
        self._proposed: dict[str, bytes] | None = None  # the leader's assignment while it is being written

    # -- phase one: members join -------------------------------------------------------

    def _rebalance(self, now: Now, reason: str) -> None:
        """Ask all members to rejoin, unless that is already happening."""
        if self.state in (ClassicGroupState.PREPARING, ClassicGroupState.DEAD):
            return
        logger.debug("group %s rebalances: %s", self.group_id, reason)
        if self.state is ClassicGroupState.COMPLETING:
            self._drop_assignment(ErrorCode.REBALANCE_IN_PROGRESS)
        self._sync_deadline.clear()
        self._is_first = self.state is ClassicGroupState.EMPTY
        self._grew = False
        timeout_ms = self.rebalance_timeout_ms
        if self._is_first:
            delay_ms = self._config().group_initial_rebalance_delay_ms
            self._wait_left_ms = max(0, timeout_ms - delay_ms)
            timeout_ms = delay_ms
        self._move(ClassicGroupState.PREPARING, now)
        self._join_deadline.set(now.uptime_ms + timeout_ms)

    def _drop_assignment(self, error: ErrorCode) -> None:
        """Members that wait for the assignment of this generation will not get one."""
        self._proposed = None
        for member in self.members.values():
            member.assignment = b""
            self._respond_to_sync(member, SyncResponse(error))

    def _joining_over(self, now: Now) -> Effects:
        if self.state is not ClassicGroupState.PREPARING:
            return []
        if self._is_first and self._grew and self._wait_left_ms > 0:
            self._grew = False
            more_ms = min(self._config().group_initial_rebalance_delay_ms, self._wait_left_ms)
            self._wait_left_ms -= more_ms
            self._join_deadline.set(now.uptime_ms + more_ms)
            return []
        self._complete_join(now)
        return self._drain()

    def _try_to_complete_join(self, now: Now) -> None:
        if self.state is not ClassicGroupState.PREPARING or self._is_first or self.pending:
            return
        if all(member.join_waiter is not None for member in self.members.values()):
            self._complete_join(now)

    def _complete_join(self, now: Now) -> None:
        for member in [member for member in self.members.values() if member.join_waiter is None]:
            if member.instance_id is None:
                self._forget(member)
        joined = [member for member in self.members.values() if member.join_waiter is not None]
        if self.members and not joined:
            # Only static members are left, and none of them is back yet: there is no leader.
            self._join_deadline.set(now.uptime_ms + self.rebalance_timeout_ms)
            return
        self._join_deadline.clear()
        self._is_first = False
        self.generation += 1
        if not self.members:
            self._become_empty(now)
            return
        if self.leader is None or self.members[self.leader].join_waiter is None:
            self.leader = joined[0].member_id
        self.protocol = self._vote()
        self.subscribed = self._topics()
        self._move(ClassicGroupState.COMPLETING, now)
        self._not_synced = set(self.members)
        self._sync_deadline.set(now.uptime_ms + self.rebalance_timeout_ms)
        for member in list(self.members.values()):
            member.is_new = False
            member.alive(now)
            self._respond_to_join(member, self._joined(member, leads=member.member_id == self.leader))

    def _become_empty(self, now: Now) -> None:
        self.protocol = None
        self.leader = None
        self.subscribed = frozenset()
        self._move(ClassicGroupState.EMPTY, now)
        # The result is ignored: without this record, the next coordinator only waits for the old members
        # until their sessions expire.
        self._do(AppendRecords([group_record(self.group_id, self._record_of())], NOTHING_FOLLOWS))

    # -- phase two: members fetch their assignment -------------------------------------

    def _synced(self, member: Member) -> None:
        self._not_synced.discard(member.member_id)
        if not self._not_synced:
            self._sync_deadline.clear()

    def _syncing_over(self, now: Now) -> Effects:
        """Remove members that joined but never sent SyncGroup: their partitions would not be read."""
        if self.state not in (ClassicGroupState.COMPLETING, ClassicGroupState.STABLE) or not self._not_synced:
            return []
        for member_id in sorted(self._not_synced):
            if member_id in self.members:
                self._forget(self.members[member_id])
        self._not_synced.clear()
        self._rebalance(now, "members did not sync in time")
        self._try_to_complete_join(now)
        return self._drain()

    # -- removed members ---------------------------------------------------------------

    def _session_over(self, member_id: str, now: Now) -> Effects:
        member = self.members.get(member_id)
        if member is None:
            return []
        waits = member.sync_waiter is not None or (member.join_waiter is not None and not member.is_new)
        if waits:
            return []  # It cannot send heartbeats while it waits; its session begins with the response.
        self._remove(member, now, "a member's session is over")
        return self._drain()

    def _remove(self, member: Member, now: Now, reason: str) -> None:
        self._not_synced.discard(member.member_id)
        self._forget(member)
        self._rebalance(now, reason)
        self._try_to_complete_join(now)
