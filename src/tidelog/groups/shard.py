"""One partition of ``__consumer_offsets``: all its groups and offsets.

Requests are methods; requests that may wait pass a waiter. Timers run in :meth:`GroupShard.pass_to`, which
must be called at :attr:`GroupShard.next_ms`.
"""

from collections.abc import Sequence

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.administration import Administration
from tidelog.groups.classic.group import ClassicGroup
from tidelog.groups.classic.joining import StaticReplacement
from tidelog.groups.classic.messages import NO_MEMBER, JoinRequest, LeavingMember, SyncRequest
from tidelog.groups.classic.syncing import ProposedAssignment
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.requests import ConsumerGroupChange, ConsumerRequests
from tidelog.groups.effects import Effects, Now, Token, Waiter
from tidelog.groups.offset_requests import OffsetRequests, OffsetsToCommit
from tidelog.groups.pending_writes import NOTHING_FOLLOWS
from tidelog.groups.shard_state import GroupRemoval, OffsetDeletionPart

PendingWrite = (
    OffsetsToCommit
    | ConsumerGroupChange
    | ProposedAssignment
    | StaticReplacement
    | OffsetDeletionPart
    | GroupRemoval
)

TEXT_MAX = 32_767  # in bytes, so that a string fits into a record


class GroupShard(OffsetRequests, Administration, ConsumerRequests):
    # -- from one coordinator to the next ----------------------------------------------

    def start(self, now: Now) -> Effects:
        """Called after the replay."""
        for group_id in self.offsets.group_ids():
            self._ensure(group_id)
        self.begin_expiry(now)
        effects: Effects = []
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                effects += group.resume(now)
        self.resume_consumer_groups(now)
        return effects

    def stop(self) -> Effects:
        """Another broker takes over: redirect all pending requests."""
        effects: Effects = []
        for group in self.groups.values():
            effects += group.abandon()
        return effects

    # -- the clock ---------------------------------------------------------------------

    @property
    def next_ms(self) -> int | None:
        return self.deadlines.next_ms

    def pass_to(self, now: Now) -> Effects:
        return self.deadlines.pass_to(now)

    # -- the log -----------------------------------------------------------------------

    def appended(self, token: Token, error: ErrorCode, now: Now) -> Effects:
        """The records of an effect are committed (NONE), or were refused."""
        if token == NOTHING_FOLLOWS:
            return []
        pending: PendingWrite = self.writes.take(token)
        match pending:
            case OffsetsToCommit():  # first: most writes are of this kind
                return self._offsets_written(pending, error)
            case ConsumerGroupChange():
                return self._change_written(pending, error)
            case ProposedAssignment(group, assignments):
                return group.assignment_written(assignments, error, now)
            case StaticReplacement(group):
                return group.replacement_written(pending, error)
            case OffsetDeletionPart():
                return self._offsets_deleted(pending, error)
            case GroupRemoval():
                return self._group_removed(pending, error, now)

    # -- members with the classic protocol ---------------------------------------------

    def join(self, request: JoinRequest, waiter: Waiter, now: Now) -> Effects:
        """The response is a JoinResponse."""
        _check_texts(request)
        config = self.config()
        shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            raise TidelogError(
                f"a session timeout of {request.session_timeout_ms} ms is not in {shortest} to {longest} ms",
                ErrorCode.INVALID_SESSION_TIMEOUT,
            )
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != NO_MEMBER:
                raise _stranger(request.group_id)
            group = self._new_classic(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer_join(group, request, waiter, now)
        effects = self._classic(group, request.group_id).join(request, waiter, now)
        self.groups[request.group_id] = group  # Only after the member was admitted.
        return effects

    def sync(self, request: SyncRequest, waiter: Waiter, now: Now) -> Effects:
        """The response is a SyncResponse."""
        group = self._of_members(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer_sync(group, request, waiter, now)
        return group.sync(request, waiter, now)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, now: Now
    ) -> None:
        """Raises the error for the member if its generation is not valid."""
        group = self._of_members(group_id)
        if isinstance(group, ConsumerGroup):
            self.consumer_classic_heartbeat(group, member_id, instance_id, generation, now)
        else:
            group.heartbeat(member_id, instance_id, generation, now)

    def leave(
        self, group_id: str, members: Sequence[LeavingMember], now: Now
    ) -> tuple[list[ErrorCode], Effects]:
        """An error code per member, in order."""
        try:
            group = self._of_members(group_id)
        except TidelogError as refusal:
            return [refusal.code] * len(members), []
        if isinstance(group, ConsumerGroup):
            return self.consumer_leave(group, members, now)
        return group.leave(members, now)

    def _of_members(self, group_id: str) -> ClassicGroup | ConsumerGroup:
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        return self._classic(group, group_id)

    @staticmethod
    def _classic(group: object, group_id: str) -> ClassicGroup:
        if not isinstance(group, ClassicGroup):
            raise _stranger(group_id)
        return group


def _stranger(group_id: str) -> TidelogError:
    return TidelogError(f"group {group_id[:80]!r} has no such member", ErrorCode.UNKNOWN_MEMBER_ID)


def _check_texts(request: JoinRequest) -> None:
    """Refuse strings that are too long to be written when the member gets partitions."""
    names = (name for name, _ in request.protocols)
    for text in (request.instance_id or "", request.protocol_type, *names):
        if len(text.encode()) > TEXT_MAX:
            raise TidelogError(f"{text[:40]!r}… is longer than {TEXT_MAX} bytes", ErrorCode.INVALID_REQUEST)


def check_group_id(group_id: str, *, may_be_empty: bool = False) -> None:
    """Refuse an invalid group id. As in Kafka, offsets may belong to the empty id."""
    if (not group_id and not may_be_empty) or len(group_id.encode()) > TEXT_MAX:
        raise TidelogError("a group id has 1 to 32767 bytes", ErrorCode.INVALID_GROUP_ID)
