"""The description of a consumer group for administrators."""

from typing import NamedTuple
from uuid import UUID

from tidelog.groups.consumer import progress
from tidelog.groups.consumer.group import ConsumerGroup
from tidelog.groups.consumer.partitions import Held, Partitions
from tidelog.groups.consumer.records import MemberRecord
from tidelog.groups.consumer.view import GroupContext, Topics

DescribedPartitions = tuple[tuple[UUID, str, tuple[int, ...]], ...]
"""(topic id, topic name, partitions) of topics that exist."""


class ConsumerMemberDescription(NamedTuple):
    member_id: str
    epoch: int
    facts: MemberRecord
    assignment: DescribedPartitions
    target: DescribedPartitions


class ConsumerGroupDescription(NamedTuple):
    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ConsumerMemberDescription, ...]


def describe(group: ConsumerGroup, view: GroupContext) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group.group_id,
        group.state_name,
        group.epoch,
        group.target_epoch,
        progress.assignor_name(group, view),
        tuple(
            ConsumerMemberDescription(
                member_id,
                group.current(member_id).epoch,
                facts,
                _named(group.current(member_id).held, view.topics),
                _named(group.target(member_id), view.topics),
            )
            for member_id, facts in group.members.items()
        ),
    )


def _named(partitions: Partitions | Held, topics: Topics) -> DescribedPartitions:
    names = topics.topic_names
    return tuple(
        (topic_id, names[topic_id], tuple(sorted(indexes)))
        for topic_id, indexes in partitions.items()
        if topic_id in names
    )
