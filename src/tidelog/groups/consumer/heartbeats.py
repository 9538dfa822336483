"""ConsumerGroupHeartbeat: joining, staying, leaving, and being removed.

A member joins with epoch 0, reports its partitions when they change, and leaves with epoch -1, or with -2 if
it is a static member that will return. Every response contains the member's epoch. It contains the assignment
if that has changed, if the member asked for it, or if the member owns other partitions. All checks are made
before any change.
"""

from typing import Any, NamedTuple

import msgspec

from tidelog import regex
from tidelog.config import BrokerConfig
from tidelog.errors import ErrorCode, InvalidRequest, TidelogError
from tidelog.groups.consumer import progress
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.partitions import Held, Partitions, within
from tidelog.groups.consumer.records import CurrentMemberRecord, MemberRecord, RecordKind
from tidelog.groups.consumer.view import NO_MATCHES, GroupContext
from tidelog.groups.consumer.waits import WaitReason
from tidelog.regex import Matches

JOIN, LEAVE, AWAY = 0, -1, -2
UNCHANGED = -1
MEMBER_ID_MAX = 32_767  # in bytes, so that it fits into a record's key
_CHOOSES_ITS_ID_FROM = 1  # since this version a member chooses its own id


class Heartbeat(NamedTuple):
    """A request. None (for the timeout: -1) means "unchanged"."""

    member_id: str
    epoch: int
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    matches: Matches = NO_MATCHES  # of topics with regular expressions, as far as they are known

    @property
    def asks_for_everything(self) -> bool:
        """Whether all fields are set. A member sends all of them if it joins or got no response."""
        subscribes = self.topics is not None or self.regex is not None
        return self.epoch == JOIN or (
            self.rebalance_timeout_ms != UNCHANGED and subscribes and self.owned is not None
        )


class HeartbeatResponse(NamedTuple):
    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assignment: Held | None = None  # None: unchanged


def check(request: Heartbeat, version: int, config: BrokerConfig) -> None:
    """Refuse requests that are invalid in any state of the group."""
    if request.epoch < AWAY:
        raise InvalidRequest(f"there is no member epoch {request.epoch}")
    if not request.member_id and (version >= _CHOOSES_ITS_ID_FROM or request.epoch != JOIN):
        raise InvalidRequest("a member id is missing")
    if len(request.member_id.encode()) > MEMBER_ID_MAX:
        raise InvalidRequest(f"a member id has at most {MEMBER_ID_MAX} bytes")
    if request.instance_id == "" or request.rack_id == "":
        raise InvalidRequest("an instance id or rack id must not be empty")
    if request.epoch == AWAY and request.instance_id is None:
        raise InvalidRequest("only a static member can leave for a while: an instance id is missing")
    if request.epoch == JOIN:
        _check_join(request)
    if request.assignor is not None and request.assignor not in config.group_consumer_assignors:
        known = ", ".join(config.group_consumer_assignors)
        raise TidelogError(
            f"there is no assignor {request.assignor[:60]!r}, only {known}", ErrorCode.UNSUPPORTED_ASSIGNOR
        )
    if request.regex:
        regex.check(request.regex)


def _check_join(request: Heartbeat) -> None:
    if request.rebalance_timeout_ms < 0:
        raise InvalidRequest("a member that joins must send its rebalance timeout")
    if request.owned is None or request.owned:
        raise InvalidRequest("a member that joins must send an empty list of owned partitions")
    if request.topics is None and request.regex is None:
        raise InvalidRequest("a member that joins must subscribe to topics, or to a regular expression")


def heartbeat(group: ConsumerGroup, request: Heartbeat, view: GroupContext) -> HeartbeatResponse:
    if request.epoch in (LEAVE, AWAY):
        return _leave(group, request, view)
    member_id = request.member_id
    replaced = _admit(group, request, view.config)
    if replaced is not None:
        progress.take_over(group, replaced, member_id)
    held_before = group.current(member_id).held
    progress.set_member(group, member_id, _member_record(group.members.get(member_id), request), view)
    progress.advance(group, member_id, request.owned, view)
    _expect_heartbeat(group, member_id, view)
    current = group.current(member_id)
    # It owns partitions that it must revoke: the response was lost, perhaps with the previous coordinator.
    unaware = request.owned is not None and not within(request.owned, current.held)
    tell = request.asks_for_everything or current.held != held_before or unaware
    return HeartbeatResponse(
        member_id, current.epoch, interval_ms(group, view), current.held if tell else None
    )


def interval_ms(group: ConsumerGroup, view: GroupContext) -> int:
    """The heartbeat interval: short while partitions move and for a while afterwards, because members that
    are started together join one after another.
    """
    usual_ms = view.group_config(group.group_id).consumer_heartbeat_interval_ms
    quiet_from_ms = group.retargeted_ms + usual_ms
    if view.now.uptime_ms >= quiet_from_ms and group.state_name == "Stable":
        return usual_ms
    return min(usual_ms, view.config.group_consumer_rebalance_heartbeat_interval_ms)


def expire(group: ConsumerGroup, view: GroupContext) -> dict[str, WaitReason]:
    """Remove members that missed a deadline; returns them with the reasons."""
    missed = group.waits.missed(view.now.uptime_ms)
    if missed:
        progress.remove(group, missed, view)
    return missed


def resume(group: ConsumerGroup, view: GroupContext) -> None:
    """The group was loaded from the log: every member has a new session."""
    for member_id, member in group.members.items():
        if member.classic is None:
            _expect_heartbeat(group, member_id, view)
            if group.current(member_id).revoking:
                at_ms = view.now.uptime_ms + member.rebalance_timeout_ms
                group.waits.set(member_id, WaitReason.REVOCATION, at_ms)
        else:
            at_ms = view.now.uptime_ms + member.classic.session_timeout_ms
            group.waits.set(member_id, WaitReason.HEARTBEAT, at_ms)


def _expect_heartbeat(group: ConsumerGroup, member_id: str, view: GroupContext) -> None:
    at_ms = view.now.uptime_ms + view.group_config(group.group_id).consumer_session_timeout_ms
    group.waits.set(member_id, WaitReason.HEARTBEAT, at_ms)


# -- checks --------------------------------------------------------------------------------------------------


def _admit(group: ConsumerGroup, request: Heartbeat, config: BrokerConfig) -> str | None:
    """Refuse clients that are not members and may not join. Returns the previous id of a static member that
    returns with a new id.
    """
    if request.epoch != JOIN:
        member_id = known_member(group, request.member_id, request.instance_id)
        _check_epoch(group.current(member_id), request)
        return None
    before = None if request.instance_id is None else group.instances.get(request.instance_id)
    if before is not None:
        _check_released(group, before, request)
        return None if before == request.member_id else before
    check_room(group, request.member_id, config)
    return None


def check_room(group: ConsumerGroup, member_id: str, config: BrokerConfig) -> None:
    if member_id not in group.members and len(group.members) >= config.group_consumer_max_size:
        raise TidelogError(
            f"the group has {len(group.members)} members, the maximum",
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        )


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> str:
    """The id of an existing member. Refuses unknown members, and static members that were replaced."""
    if instance_id is not None:
        owner = group.instances.get(instance_id)
        if owner is None:
            raise TidelogError("there is no member with this instance id", ErrorCode.UNKNOWN_MEMBER_ID)
        if owner != member_id:
            raise TidelogError("another member has this instance id now", ErrorCode.FENCED_INSTANCE_ID)
    if member_id not in group.members:
        raise TidelogError("this is not a member of the group", ErrorCode.UNKNOWN_MEMBER_ID)
    return member_id


def _check_epoch(current: CurrentMemberRecord, request: Heartbeat) -> None:
    if request.epoch == current.epoch:
        return
    # The last response may have been lost. Then the member has the previous epoch and no extra partitions.
    lost_response = request.epoch == current.previous_epoch and request.epoch < current.epoch
    if lost_response and request.owned is not None and within(request.owned, current.held):
        return
    raise TidelogError(
        f"member epoch {request.epoch} is not the current {current.epoch}: release all partitions and rejoin",
        ErrorCode.FENCED_MEMBER_EPOCH,
    )


def _check_released(group: ConsumerGroup, before: str, request: Heartbeat) -> None:
    """An instance id is free if its static member has announced that it will return, or if the same process
    joins again. A member with the classic protocol cannot announce it and is replaced.
    """
    if before == request.member_id or group.members[before].classic is not None:
        return
    if group.current(before).epoch != AWAY:
        raise TidelogError(
            "another member has this instance id and has not left", ErrorCode.UNRELEASED_INSTANCE_ID
        )


# -- the member's record -------------------------------------------------------------------------------------


def _member_record(old: MemberRecord | None, request: Heartbeat) -> MemberRecord:
    changes: dict[str, Any] = {"client_id": request.client_id, "client_host": request.client_host}
    for name in ("instance_id", "rack_id", "assignor"):
        told = getattr(request, name)
        if told is not None:
            changes[name] = told
    if request.topics is not None:
        changes["topics"] = tuple(sorted(set(request.topics)))
    if request.regex is not None:
        changes["regex"] = request.regex or None  # An empty one removes the subscription.
    if request.rebalance_timeout_ms != UNCHANGED:
        changes["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    return msgspec.structs.replace(old or MemberRecord("", ""), **changes, classic=None)


# -- leaving -------------------------------------------------------------------------------------------------


def _leave(group: ConsumerGroup, request: Heartbeat, view: GroupContext) -> HeartbeatResponse:
    member_id = known_member(group, request.member_id, request.instance_id)
    if request.epoch == AWAY:
        current = group.current(member_id)
        away = CurrentMemberRecord(AWAY, current.epoch, current.state, current.held)
        group.put(RecordKind.CURRENT_MEMBER, member_id, away)
        group.waits.forget(member_id)
        _expect_heartbeat(group, member_id, view)
    else:
        progress.remove(group, [member_id], view)
    return HeartbeatResponse(member_id, request.epoch)
