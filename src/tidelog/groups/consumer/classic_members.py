"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

The epoch of such a member is its generation. It gets a new assignment in three steps: a heartbeat response
tells it to rejoin, JoinGroup moves it one step towards its target, and SyncGroup returns the partitions.
JoinGroup contains the partitions that it owns (none with an eager assignor). It is never the group leader,
because the broker assigns.
"""

from collections.abc import Sequence

from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.classic.messages import (
    NO_MEMBER,
    JoinRequest,
    JoinResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from tidelog.groups.consumer import embedded, progress
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.heartbeats import MEMBER_ID_MAX, check_room, known_member
from tidelog.groups.consumer.partitions import is_in
from tidelog.groups.consumer.records import ClassicProtocols, MemberRecord, MemberState
from tidelog.groups.consumer.view import GroupContext
from tidelog.groups.consumer.waits import WaitReason
from tidelog.protocol.wire import Malformed


def join(group: ConsumerGroup, request: JoinRequest, view: GroupContext) -> JoinResponse:
    member_id = request.member_id or request.new_member_id
    subscription = _check_protocols(group, request)
    replaced = _admit(group, request, view)
    if request.member_id == NO_MEMBER and request.instance_id is None and request.needs_known_id:
        return JoinResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    if replaced is not None:
        progress.take_over(group, replaced, member_id)
    record = MemberRecord(
        request.client_id,
        request.client_host,
        tuple(sorted(set(subscription.topics))),
        instance_id=request.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicProtocols(request.session_timeout_ms, request.protocols),
    )
    progress.set_member(group, member_id, record, view)
    progress.advance(group, member_id, embedded.by_topic_id(subscription.owned, view.topics), view)
    group.waits.cancel(member_id, WaitReason.JOIN)
    group.waits.set(member_id, WaitReason.SYNC, view.now.uptime_ms + request.rebalance_timeout_ms)
    _alive(group, member_id, request.session_timeout_ms, view)
    return JoinResponse(
        ErrorCode.NONE,
        member_id,
        group.current(member_id).epoch,
        embedded.PROTOCOL_TYPE,
        request.protocols[0][0],
    )


def sync(group: ConsumerGroup, request: SyncRequest, view: GroupContext) -> SyncResponse:
    member_id, classic = _classic_member(group, request.member_id, request.instance_id, request.generation)
    current = group.current(member_id)
    if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED:
        raise _rejoin(group, member_id, view)
    protocol, metadata = classic.protocols[0]
    if request.protocol_type not in (None, embedded.PROTOCOL_TYPE) or request.protocol not in (
        None,
        protocol,
    ):
        raise TidelogError("the member joined with another protocol", ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    group.waits.cancel(member_id, WaitReason.SYNC)
    _alive(group, member_id, classic.session_timeout_ms, view)
    held = embedded.by_name(current.held, view.topics)
    assignment = embedded.write_assignment(embedded.version_of(metadata), held)
    return SyncResponse(ErrorCode.NONE, embedded.PROTOCOL_TYPE, protocol, assignment)


def heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, view: GroupContext
) -> None:
    """Extend a member's session. Raises the error for it, for instance if it must rejoin."""
    member_id, classic = _classic_member(group, member_id, instance_id, generation)
    _alive(group, member_id, classic.session_timeout_ms, view)
    if not _may_stay(group, member_id):
        raise _rejoin(group, member_id, view)


def leave(group: ConsumerGroup, members: Sequence[LeavingMember], view: GroupContext) -> list[ErrorCode]:
    """The result for each leaving member, in order."""
    responses = []
    leaving: list[str] = []
    for member in members:
        try:
            leaving.append(_leaving_member(group, member))
            responses.append(ErrorCode.NONE)
        except TidelogError as refusal:
            responses.append(refusal.code)
    if leaving:
        progress.remove(group, dict.fromkeys(leaving), view)
    return responses


def _may_stay(group: ConsumerGroup, member_id: str) -> bool:
    """Whether a rejoin would change nothing for a member now."""
    current = group.current(member_id)
    if current.epoch < group.epoch or current.state is MemberState.UNREVOKED:
        return False
    if current.state is MemberState.STABLE:
        return True
    missing = [
        (topic_id, index)
        for topic_id, indexes in group.target(member_id).items()
        for index in indexes
        if not is_in(current.held, topic_id, index)
    ]
    # With an eager assignor each rejoin interrupts reading, so it waits until all partitions are free.
    return any(group.owner(topic_id, index) is not None for topic_id, index in missing)


def _rejoin(group: ConsumerGroup, member_id: str, view: GroupContext) -> TidelogError:
    at_ms = view.now.uptime_ms + group.members[member_id].rebalance_timeout_ms
    group.waits.set_if_absent(member_id, WaitReason.JOIN, at_ms)
    return TidelogError("the group is rebalancing: join again", ErrorCode.REBALANCE_IN_PROGRESS)


def _alive(group: ConsumerGroup, member_id: str, session_timeout_ms: int, view: GroupContext) -> None:
    group.waits.set(member_id, WaitReason.HEARTBEAT, view.now.uptime_ms + session_timeout_ms)


# -- checks --------------------------------------------------------------------------------------------------


def _check_protocols(group: ConsumerGroup, request: JoinRequest) -> embedded.Subscription:
    """The member's subscription. Refuses clients that are not consumers, and those without a common protocol:
    the group may become a classic one again.
    """
    names = {name for name, _ in request.protocols}
    common = set(names)
    for member_id, member in group.members.items():
        if member.classic is not None and member_id != request.member_id:
            common &= {name for name, _ in member.classic.protocols}
    if request.protocol_type != embedded.PROTOCOL_TYPE or not common:
        raise TidelogError(
            "the members of the group use none of these protocols", ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        )
    try:
        return embedded.read_subscription(request.protocols[0][1])
    except Malformed as error:
        raise TidelogError(error.message, ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from None


def _admit(group: ConsumerGroup, request: JoinRequest, view: GroupContext) -> str | None:
    """Check that the client may join. Returns the previous id of a static member that has a new id."""
    if request.instance_id is None:
        if len(request.member_id.encode()) > MEMBER_ID_MAX:
            raise TidelogError("there is no member with this id", ErrorCode.UNKNOWN_MEMBER_ID)
        check_room(group, request.member_id, view.config)
        return None
    if request.member_id == NO_MEMBER:
        before = group.instances.get(request.instance_id)
        if before is None:
            check_room(group, request.member_id, view.config)
        return before
    known_member(group, request.member_id, request.instance_id)
    return None


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[str, ClassicProtocols]:
    member_id = known_member(group, member_id, instance_id)
    classic = group.members[member_id].classic
    if classic is None:
        raise TidelogError("the member uses the consumer protocol", ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != group.current(member_id).epoch:
        raise TidelogError(f"generation {generation} of the member is over", ErrorCode.ILLEGAL_GENERATION)
    return member_id, classic


def _leaving_member(group: ConsumerGroup, leaving: LeavingMember) -> str:
    if leaving.member_id == NO_MEMBER and leaving.instance_id is not None:
        # An administrator identifies a static member by its instance id only.
        return known_member(group, group.instances.get(leaving.instance_id, NO_MEMBER), leaving.instance_id)
    return known_member(group, leaving.member_id, leaving.instance_id)
