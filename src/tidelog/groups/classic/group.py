"""A classic group: the requests of its members, and the checks for offsets and administration."""

from collections.abc import Callable

from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.joining import Joining
from tidelog.groups.classic.leaving import Leaving
from tidelog.groups.classic.messages import (
    NO_MEMBER,
    ClassicGroupDescription,
    ClassicMemberDescription,
    JoinResponse,
    SyncResponse,
)
from tidelog.groups.classic.states import ClassicGroupState
from tidelog.groups.classic.syncing import AssignmentSyncing
from tidelog.groups.deadlines import Deadlines
from tidelog.groups.effects import Effects, KeyValue, Now
from tidelog.groups.group import CLASSIC
from tidelog.groups.offsets import Committed
from tidelog.groups.pending_writes import PendingWrites
from tidelog.groups.records import GroupState, group_record
from tidelog.groups.subscriptions import CONSUMER_PROTOCOL


class ClassicGroup(Joining, AssignmentSyncing, Leaving):
    kind = CLASSIC

    def __init__(
        self, group_id: str, deadlines: Deadlines, writes: PendingWrites, config: Callable[[], BrokerConfig]
    ) -> None:
        super().__init__(group_id, deadlines, writes, config)
        self._begin()

    # -- from one coordinator to the next ----------------------------------------------

    def restore(self, state: GroupState) -> None:
        """Restore the group from the log. Sessions begin with :meth:`resume`."""
        self.generation = state.generation
        self.protocol_type = state.protocol_type
        self.protocol = state.protocol
        self.since_ms = state.since_ms
        for record in state.members:
            member = self._new_member(
                record.member_id, record.instance_id, record.client_id, record.client_host
            )
            member.rebalance_timeout_ms = record.rebalance_timeout_ms
            member.session_timeout_ms = record.session_timeout_ms
            member.protocols = ((state.protocol or "", record.subscription),)
            member.assignment = record.assignment
        self.leader = state.leader if state.leader in self.members else next(iter(self.members), None)
        self.state = ClassicGroupState.STABLE if self.members else ClassicGroupState.EMPTY
        self.subscribed = self._topics()

    def resume(self, now: Now) -> Effects:
        """Called after loading: each member gets a new session."""
        for member in self.members.values():
            member.alive(now)
        if len(self.members) > self._config().group_max_size:
            self._rebalance(now, "the group is larger than group.max.size allows")
        return self._drain()

    def abandon(self) -> Effects:
        for member in self.members.values():
            self._respond_to_join(member, JoinResponse(ErrorCode.NOT_COORDINATOR, member.member_id))
            self._respond_to_sync(member, SyncResponse(ErrorCode.NOT_COORDINATOR))
        self._proposed = None
        return self._drain()

    # -- from one kind of group to the other -------------------------------------------

    def dissolve(self, now: Now) -> Effects:
        """The group becomes a consumer group: members with a pending request must rejoin there."""
        for member in list(self.members.values()):
            self._respond_to_join(member, JoinResponse(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            self._respond_to_sync(member, SyncResponse(ErrorCode.REBALANCE_IN_PROGRESS))
            self._forget(member)
        self._proposed = None
        self._join_deadline.clear()
        self._sync_deadline.clear()
        if self.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING):
            self._move(ClassicGroupState.PREPARING, now)
        if self.state is ClassicGroupState.PREPARING:
            self._move(ClassicGroupState.EMPTY, now)
        self.removed(now)
        return self._drain()

    def adopt(self, state: GroupState, now: Now) -> Effects:
        """Continue a former consumer group. All members rejoin, because there is no leader yet."""
        self.restore(state)
        for member in self.members.values():
            member.alive(now)
        self._rebalance(now, "the group uses the classic protocol again")
        return self._drain()

    # -- offsets -----------------------------------------------------------------------

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool, version: int
    ) -> None:
        if generation < 0 and self.state is ClassicGroupState.EMPTY:
            return  # From outside the group, which has no members.
        if generation >= 0 or member_id != NO_MEMBER or instance_id is not None:
            self.check_member(member_id, instance_id)
            self._check_generation(generation)
        elif not transactional:
            raise self._unknown(member_id)
        if self.state is ClassicGroupState.COMPLETING and not transactional:
            raise TidelogError("the group is rebalancing", ErrorCode.REBALANCE_IN_PROGRESS)

    def committed_by(self, member_id: str, now: Now) -> None:
        member = self.members.get(member_id)
        if member is not None:
            member.alive(now)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allowed for any client."""

    def check_offset_delete(self) -> None:
        if self.members and self.protocol_type != CONSUMER_PROTOCOL:
            raise self._not_empty()  # Only for consumers are the subscribed topics known.

    def is_subscribed(self, topic: str) -> bool:
        if self.subscribed is None:
            return self.protocol_type == CONSUMER_PROTOCOL
        return topic in self.subscribed

    def expires_from_ms(self, committed: Committed) -> int | None:
        if not self.protocol_type:
            return committed.commit_ms
        if self.state is ClassicGroupState.EMPTY:
            return committed.commit_ms if self.since_ms < 0 else self.since_ms
        if self.state is ClassicGroupState.STABLE and self.protocol_type == CONSUMER_PROTOCOL:
            return None if self.subscribed is None else committed.commit_ms
        return None

    # -- administration ----------------------------------------------------------------

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_vacant(self) -> bool:
        return self.state is ClassicGroupState.EMPTY and not self.pending

    def check_delete(self) -> None:
        if self.state is not ClassicGroupState.EMPTY:
            raise self._not_empty()

    def _not_empty(self) -> TidelogError:
        return TidelogError(f"group {self.group_id[:80]!r} has members", ErrorCode.NON_EMPTY_GROUP)

    def tombstones(self) -> list[KeyValue]:
        return [group_record(self.group_id, None)]

    def removed(self, now: Now) -> None:
        for member_id in list(self.pending):
            self._forget_pending(member_id)
        self._move(ClassicGroupState.DEAD, now)

    def describe(self) -> ClassicGroupDescription:
        stable = self.state is ClassicGroupState.STABLE
        members = tuple(
            ClassicMemberDescription(
                member.member_id, member.instance_id, member.client_id, member.client_host,
                member.metadata(self.protocol) if stable else b"", member.assignment if stable else b"",
            )
            for member in self.members.values()
        )  # fmt: skip
        return ClassicGroupDescription(
            self.state_name, self.protocol_type, (self.protocol or "") if stable else "", members
        )
