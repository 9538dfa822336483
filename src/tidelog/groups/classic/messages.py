"""Requests of members to a classic group, and the responses."""

from typing import NamedTuple

from tidelog.errors import ErrorCode

NO_MEMBER = ""  # as a member id: not a member yet
NO_GENERATION = -1

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) of each protocol a member supports, preferred first."""


class JoinRequest(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: Protocols
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str
    client_host: str
    new_member_id: str  # for clients without an id
    needs_known_id: bool  # newer clients get an id first, so that a lost response leaves no ghost member
    can_skip_assignment: bool  # newer clients can lead without assigning


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResponse(NamedTuple):
    error: ErrorCode
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()  # for the leader only
    skip_assignment: bool = False


class SyncRequest(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None  # None: an older client that does not send it
    protocol: str | None
    assignments: tuple[tuple[str, bytes], ...]  # (member, assignment), from the leader only


class SyncResponse(NamedTuple):
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class LeavingMember(NamedTuple):
    """One member that leaves; without a member id: the holder of the instance id."""

    member_id: str
    instance_id: str | None


class ClassicMemberDescription(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class ClassicGroupDescription(NamedTuple):
    state: str
    protocol_type: str
    protocol: str
    members: tuple[ClassicMemberDescription, ...]
