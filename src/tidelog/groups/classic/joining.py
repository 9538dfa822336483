"""JoinGroup: a member joins or rejoins."""

from typing import NamedTuple

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.membership import Member, write_error
from tidelog.groups.classic.messages import NO_MEMBER, JoinRequest, JoinResponse, SyncResponse
from tidelog.groups.classic.rebalancing import Rebalancing
from tidelog.groups.classic.states import ClassicGroupState
from tidelog.groups.effects import AppendRecords, Effects, Now, Respond, Waiter
from tidelog.groups.records import group_record

# A new member does not send heartbeats before its first generation, and that may take a rebalance timeout.
NEW_MEMBER_TIMEOUT_MS = 300_000


class StaticReplacement(NamedTuple):
    """A static member that returned with a new id, which is being written without a rebalance."""

    group: "Joining"
    generation: int
    member: Member
    waiter: Waiter
    old_leader: str | None
    can_skip_assignment: bool


class Joining(Rebalancing):
    def join(self, request: JoinRequest, waiter: Waiter, now: Now) -> Effects:
        """The response is sent with the next generation, or immediately if this one continues. Raises
        TidelogError if the request is refused.
        """
        self._check_size(request.member_id)
        if request.member_id == NO_MEMBER:
            self._join_new(request, waiter, now)
        else:
            self._join_again(request, waiter, now)
        self._try_to_complete_join(now)
        return self._drain()

    def _check_size(self, member_id: str) -> None:
        """Refuse members beyond the limit. During a rebalance only members that have rejoined count, so that
        a lowered limit excludes the rest.
        """
        member = self.members.get(member_id)
        size = len(self.members)
        if self.state is ClassicGroupState.PREPARING:
            size = sum(other.join_waiter is not None for other in self.members.values())
            member = member if member is not None and member.join_waiter is not None else None
        if (
            member is None
            and size >= self._config().group_max_size
            and self.state is not ClassicGroupState.EMPTY
        ):
            raise TidelogError(
                f"group {self.group_id[:80]!r} has reached group.max.size",
                ErrorCode.GROUP_MAX_SIZE_REACHED,
            )

    # -- new members -------------------------------------------------------------------

    def _join_new(self, request: JoinRequest, waiter: Waiter, now: Now) -> None:
        self.check_protocols(request.protocol_type, request.protocols)
        if request.instance_id is not None and request.instance_id in self.static_ids:
            self._replace_static(request, waiter, now)
        elif request.instance_id is None and request.needs_known_id:
            self._give_id(request, waiter, now)
        else:
            self._add(request.new_member_id, request, waiter, now)

    def _give_id(self, request: JoinRequest, waiter: Waiter, now: Now) -> None:
        member_id = request.new_member_id
        deadline = self._deadlines.new(lambda now: self._pending_over(member_id, now))
        deadline.set(now.uptime_ms + request.session_timeout_ms)
        self.pending[member_id] = deadline
        self._do(Respond(waiter, JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id)))

    def _pending_over(self, member_id: str, now: Now) -> Effects:
        self.pending.pop(member_id, None)
        self._try_to_complete_join(now)
        return self._drain()

    def _add(self, member_id: str, request: JoinRequest, waiter: Waiter, now: Now) -> None:
        if not self.members:
            self.protocol_type = request.protocol_type
        member = self._new_member(member_id, request.instance_id, request.client_id, request.client_host)
        member.is_new = True
        self._update(member, request, waiter)
        member.session.set(now.uptime_ms + NEW_MEMBER_TIMEOUT_MS)
        if self.state is ClassicGroupState.PREPARING:
            self._grew = True
        self._rebalance(now, "a member joined")

    def _update(self, member: Member, request: JoinRequest, waiter: Waiter) -> None:
        """Update a member from its JoinGroup; the response is sent with the next generation."""
        # A second request of the same member: the first one must not wait forever.
        self._respond_to_join(member, JoinResponse(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.join_waiter = waiter

    # -- members that rejoin -----------------------------------------------------------

    def _join_again(self, request: JoinRequest, waiter: Waiter, now: Now) -> None:
        self.check_protocols(request.protocol_type, request.protocols)
        if request.member_id in self.pending and request.instance_id is None:
            self._forget_pending(request.member_id)
            self._add(request.member_id, request, waiter, now)
            return
        member = self.check_member(request.member_id, request.instance_id)
        if self._stays(member, request):
            member.alive(now)
            leads = self.state is ClassicGroupState.COMPLETING and member.member_id == self.leader
            self._do(Respond(waiter, self._joined(member, leads=leads)))
            return
        self._update(member, request, waiter)
        self._rebalance(now, "a member joined again")

    def _stays(self, member: Member, request: JoinRequest) -> bool:
        """Whether a rejoining member only missed the response, so that this generation continues."""
        if self.state is ClassicGroupState.COMPLETING:
            return member.protocols == request.protocols
        # The leader rejoins to assign again, for example because a topic has grown.
        return (
            self.state is ClassicGroupState.STABLE
            and member.member_id != self.leader
            and member.protocols == request.protocols
        )

    # -- static members that return with a new id --------------------------------------

    def _replace_static(self, request: JoinRequest, waiter: Waiter, now: Now) -> None:
        """The previous holder of the instance id is fenced; the new member takes its place and partitions."""
        instance_id = request.instance_id or ""
        old = self.members[self.static_ids[instance_id]]
        old_leader = self.leader
        member = self._take_over(old, request)
        self._update(member, request, waiter)
        member.alive(now)
        if self.state is ClassicGroupState.STABLE and self._vote() == self.protocol:
            self._keep_generation(member, request, old_leader, now)
        elif self.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING):
            self._rebalance(now, "a static member came back")

    def _take_over(self, old: Member, request: JoinRequest) -> Member:
        self._respond_to_join(old, JoinResponse(ErrorCode.FENCED_INSTANCE_ID))
        self._respond_to_sync(old, SyncResponse(ErrorCode.FENCED_INSTANCE_ID))
        old.session.clear()
        del self.members[old.member_id]
        member_id = request.new_member_id
        member = self._new_member(member_id, old.instance_id, request.client_id, request.client_host)
        member.assignment = old.assignment
        member.is_new = old.is_new
        if self.leader == old.member_id:
            self.leader = member_id
        if old.member_id in self._not_synced:
            self._not_synced.discard(old.member_id)
            self._not_synced.add(member_id)
        return member

    def _keep_generation(
        self, member: Member, request: JoinRequest, old_leader: str | None, now: Now
    ) -> None:
        """Write the new member id without a rebalance, then send the response."""
        waiter, member.join_waiter = member.join_waiter, None
        self.subscribed = self._topics()
        replacement = StaticReplacement(
            self, self.generation, member, waiter, old_leader, request.can_skip_assignment
        )
        token = self._writes.add(replacement)
        self._do(AppendRecords([group_record(self.group_id, self._record_of())], token))

    def replacement_written(self, replacement: StaticReplacement, error: ErrorCode) -> Effects:
        """The new id of a static member is committed, or refused."""
        _, generation, member, waiter, old_leader, can_skip_assignment = replacement
        if self.members.get(member.member_id) is not member or self.generation != generation:
            error = error or ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            return [Respond(waiter, JoinResponse(write_error(error)))]
        leads = member.member_id == self.leader and can_skip_assignment
        response = self._joined(member, leads=leads)
        if leads:
            response = response._replace(skip_assignment=True)
        elif not can_skip_assignment:
            # An older client would assign again if it were the leader, so the old leader id is returned.
            response = response._replace(leader=old_leader or "")
        return [Respond(waiter, response)]
