"""SyncGroup and Heartbeat: the requests of members in a generation."""

from typing import NamedTuple

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.membership import Member, write_error
from tidelog.groups.classic.messages import SyncRequest, SyncResponse
from tidelog.groups.classic.rebalancing import Rebalancing
from tidelog.groups.classic.states import ClassicGroupState
from tidelog.groups.effects import AppendRecords, Effects, Now, Respond, Waiter
from tidelog.groups.records import group_record


class ProposedAssignment(NamedTuple):
    """An assignment that is being written."""

    group: "AssignmentSyncing"
    assignments: dict[str, bytes]  # by member id


class AssignmentSyncing(Rebalancing):
    def sync(self, request: SyncRequest, waiter: Waiter, now: Now) -> Effects:
        """The response is sent when the leader's assignment is committed. Raises TidelogError if refused."""
        member = self.check_member(request.member_id, request.instance_id)
        self._check_generation(request.generation)
        self._check_agreement(request)
        if self.state is ClassicGroupState.PREPARING:
            raise _rebalancing()
        self._synced(member)
        if self.state is ClassicGroupState.STABLE:
            member.alive(now)
            self._do(Respond(waiter, self._assigned(member)))
            return self._drain()
        # A second request of the same member: the first one must not wait forever.
        self._respond_to_sync(member, SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_waiter = waiter
        if member.member_id == self.leader and self._proposed is None:
            self._propose(dict(request.assignments))
        return self._drain()

    def _check_agreement(self, request: SyncRequest) -> None:
        agreed = request.protocol_type in (None, self.protocol_type)
        if not agreed or request.protocol not in (None, self.protocol):
            raise TidelogError(
                f"group {self.group_id[:80]!r} agreed on protocol {self.protocol!r}",
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise TidelogError(
                f"group {self.group_id[:80]!r} is in generation {self.generation}, not {generation}",
                ErrorCode.ILLEGAL_GENERATION,
            )

    # -- the leader's assignment -------------------------------------------------------

    def _propose(self, assignments: dict[str, bytes]) -> None:
        """Write the assignment. No member gets a partition before it is committed. Otherwise the next
        coordinator would not know the assignment and could assign the partition to another member.
        """
        proposed = self._proposed = {member_id: assignments.get(member_id, b"") for member_id in self.members}
        token = self._writes.add(ProposedAssignment(self, proposed))
        self._do(AppendRecords([group_record(self.group_id, self._record_of(proposed))], token))

    def assignment_written(self, proposed: dict[str, bytes], error: ErrorCode, now: Now) -> Effects:
        """The leader's assignment is committed, or refused."""
        if self._proposed is not proposed or self.state is not ClassicGroupState.COMPLETING:
            return []  # Another rebalance has begun, and pending requests were refused.
        if error:
            self._drop_assignment(write_error(error))
            self._rebalance(now, "the assignment could not be written")
            self._try_to_complete_join(now)
        else:
            self._take_up(proposed, now)
        return self._drain()

    def _take_up(self, proposed: dict[str, bytes], now: Now) -> None:
        self._proposed = None
        self._move(ClassicGroupState.STABLE, now)
        for member in self.members.values():
            member.assignment = proposed.get(member.member_id, b"")
            if member.sync_waiter is not None:
                member.alive(now)
                self._respond_to_sync(member, self._assigned(member))

    def _assigned(self, member: Member) -> SyncResponse:
        return SyncResponse(ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment)

    # -- heartbeats --------------------------------------------------------------------

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now: Now) -> None:
        """Extend a member's session. Raises the error for it, for instance after a new generation."""
        member = self.check_member(member_id, instance_id)
        self._check_generation(generation)
        member.alive(now)
        if self.state is ClassicGroupState.PREPARING:
            raise _rebalancing()


def _rebalancing() -> TidelogError:
    return TidelogError("the group is rebalancing: join again", ErrorCode.REBALANCE_IN_PROGRESS)
