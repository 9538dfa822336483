"""Input and output of an assignor."""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog.groups.consumer.partitions import Partitions


class MemberSpec(NamedTuple):
    instance_id: str | None
    topics: frozenset[UUID]  # subscribed and existing
    had: Partitions  # its part of the previous target


class GroupSpec(NamedTuple):
    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[UUID, int]  # of every topic a member is subscribed to

    @property
    def is_homogeneous(self) -> bool:
        """Whether all are subscribed to the same topics."""
        return len({member.topics for member in self.members.values()}) <= 1

    def in_order(self) -> list[str]:
        """The members in an order that does not depend on when they joined. Static members keep their place
        after a restart.
        """
        members = self.members
        return sorted(members, key=lambda member_id: _rank(member_id, members[member_id].instance_id))


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return instance_id is None, instance_id or member_id


Assign = Callable[[GroupSpec], dict[str, Partitions]]
"""The target of every member. Each partition of a subscribed topic is assigned to one of its subscribers."""
