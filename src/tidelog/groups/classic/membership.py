"""The members of a classic group, pending members, and the protocols they have in common."""

from collections.abc import Callable

from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.messages import JoinedMember, JoinResponse, Protocols, SyncResponse
from tidelog.groups.classic.states import TRANSITIONS, ClassicGroupState
from tidelog.groups.deadlines import Deadline, Deadlines
from tidelog.groups.effects import Effect, Effects, Now, Respond, Waiter
from tidelog.groups.pending_writes import PendingWrites
from tidelog.groups.records import ClassicMemberRecord, GroupState
from tidelog.groups.subscriptions import CONSUMER_PROTOCOL, topics_of
from tidelog.invariant import invariant


def write_error(error: ErrorCode) -> ErrorCode:
    """The error for a member when the group cannot be written."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if error == ErrorCode.MESSAGE_TOO_LARGE else error


class Member:
    __slots__ = (
        "assignment", "client_host", "client_id", "instance_id", "is_new", "join_waiter", "member_id",
        "protocols", "rebalance_timeout_ms", "session", "session_timeout_ms", "sync_waiter",
    )  # fmt: skip

    def __init__(
        self, member_id: str, instance_id: str | None, client_id: str, client_host: str, session: Deadline
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session = session
        self.session_timeout_ms = 0
        self.rebalance_timeout_ms = 0
        self.protocols: Protocols = ()
        self.assignment = b""
        self.is_new = False  # has not received a generation yet
        self.join_waiter: Waiter | None = None
        self.sync_waiter: Waiter | None = None

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def alive(self, now: Now) -> None:
        self.session.set(now.uptime_ms + self.session_timeout_ms)


class GroupMembership:
    """The state of a classic group. Everything that changes it is in the classes built on this one."""

    def __init__(
        self, group_id: str, deadlines: Deadlines, writes: PendingWrites, config: Callable[[], BrokerConfig]
    ) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.since_ms = -1  # wall clock: when it entered its state
        self.generation = 0
        self.protocol_type: str = ""  # of the present or former members
        self.protocol: str | None = None  # the one chosen for this generation
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}  # instance id -> member id
        self.pending: dict[str, Deadline] = {}  # ids that were assigned and have not joined yet
        self.subscribed: frozenset[str] | None = frozenset()  # topics of this generation; None: unknown
        self._deadlines = deadlines
        self._writes = writes
        self._config = config
        self._effects: Effects = []

    # -- effects -----------------------------------------------------------------------

    def _do(self, effect: Effect) -> None:
        self._effects.append(effect)

    def _drain(self) -> Effects:
        effects, self._effects = self._effects, []
        return effects

    def _respond_to_join(self, member: Member, response: JoinResponse) -> None:
        if member.join_waiter is not None:
            self._do(Respond(member.join_waiter, response))
            member.join_waiter = None

    def _respond_to_sync(self, member: Member, response: SyncResponse) -> None:
        if member.sync_waiter is not None:
            self._do(Respond(member.sync_waiter, response))
            member.sync_waiter = None

    # -- states ------------------------------------------------------------------------

    def _move(self, state: ClassicGroupState, now: Now) -> None:
        invariant(
            (self.state, state) in TRANSITIONS,
            "a transition that is not in the table",
            self.group_id,
            self.state,
            state,
        )
        self.state = state
        self.since_ms = now.wall_ms

    # -- queries -----------------------------------------------------------------------

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member that sent the request. Refuses unknown members and replaced static members."""
        if instance_id is not None:
            holder = self.static_ids.get(instance_id)
            if holder is not None and holder != member_id:
                raise TidelogError(
                    f"another member took over the instance id {instance_id!r}", ErrorCode.FENCED_INSTANCE_ID
                )
            if holder is None:
                raise self._unknown(member_id)
        member = self.members.get(member_id)
        if member is None:
            raise self._unknown(member_id)
        return member

    def _unknown(self, member_id: str) -> TidelogError:
        return TidelogError(
            f"{member_id[:80]!r} is not a member of group {self.group_id[:80]!r}", ErrorCode.UNKNOWN_MEMBER_ID
        )

    def check_protocols(self, protocol_type: str, protocols: Protocols) -> None:
        """Refuse a member that would leave no common protocol."""
        names = [name for name, _ in protocols]
        if not self.members:
            fits = bool(protocol_type) and bool(names)
        else:
            fits = protocol_type == self.protocol_type and any(
                all(name in dict(member.protocols) for member in self.members.values()) for name in names
            )
        if not fits:
            raise TidelogError(
                f"the members of group {self.group_id[:80]!r} use none of these protocols",
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )

    def _vote(self) -> str:
        """The protocol that most members prefer, of those that all support; in a tie, the first member's."""
        members = list(self.members.values())
        common = set.intersection(*(set(dict(member.protocols)) for member in members))
        invariant(bool(common), "members have a protocol in common", self.group_id)
        votes: dict[str, int] = {}
        for member in members:
            choice = next(name for name, _ in member.protocols if name in common)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def _topics(self) -> frozenset[str] | None:
        """The members' subscriptions; None if unknown."""
        if not self.members:
            return frozenset()
        if self.protocol_type != CONSUMER_PROTOCOL:
            return None
        topics: frozenset[str] = frozenset()
        for member in self.members.values():
            of_member = topics_of(member.metadata(self.protocol))
            if of_member is None:
                return None
            topics |= of_member
        return topics

    def _joined(self, member: Member, *, leads: bool) -> JoinResponse:
        """The current generation, as sent to a member."""
        members = tuple(
            JoinedMember(other.member_id, other.instance_id, other.metadata(self.protocol))
            for other in (self.members.values() if leads else ())
        )
        return JoinResponse(
            ErrorCode.NONE, member.member_id, self.generation, self.protocol_type, self.protocol,
            self.leader or "", members,
        )  # fmt: skip

    # -- changes -----------------------------------------------------------------------

    def _new_member(
        self, member_id: str, instance_id: str | None, client_id: str, client_host: str
    ) -> Member:
        """A new member, with all mutable fields empty."""
        session = self._deadlines.new(lambda now: self._session_over(member_id, now))
        member = Member(member_id, instance_id, client_id, client_host, session)
        self.members[member_id] = member
        if instance_id is not None:
            self.static_ids[instance_id] = member_id
        if self.leader is None:
            self.leader = member_id
        return member

    def _session_over(self, member_id: str, now: Now) -> Effects:
        raise NotImplementedError

    def _forget(self, member: Member) -> None:
        """Remove a member; a pending request of it is refused."""
        self._respond_to_join(member, JoinResponse(ErrorCode.UNKNOWN_MEMBER_ID))
        self._respond_to_sync(member, SyncResponse(ErrorCode.UNKNOWN_MEMBER_ID))
        member.session.clear()
        del self.members[member.member_id]
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.member_id:
            del self.static_ids[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _forget_pending(self, member_id: str) -> None:
        self.pending.pop(member_id).clear()

    # -- what is written ---------------------------------------------------------------

    def _record_of(self, assignments: dict[str, bytes] | None = None) -> GroupState:
        """The group for the log, with these assignments, or the members' own."""
        return GroupState(
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            self.since_ms,
            tuple(
                ClassicMemberRecord(
                    member.member_id, member.instance_id, member.client_id, member.client_host,
                    member.rebalance_timeout_ms, member.session_timeout_ms, member.metadata(self.protocol),
                    member.assignment if assignments is None else assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ),
        )  # fmt: skip
