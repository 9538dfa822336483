"""ConsumerGroupDescribe, versions 0 and 1: consumer groups with their members and assignments."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.access import group_operations
from tidelog.broker.requests.coordination import machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import describe_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.consumer.description import (
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    DescribedPartitions,
)
from tidelog.protocol.messages import Fields

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


DESCRIBED_PER_SLICE = 100  # about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    return describe_in_slices(
        broker.services,
        dict.fromkeys(request.group_ids),  # A response may be a million times larger.
        lambda group_id: {
            **_describe(broker, group_id),
            **group_operations(broker, request, context, group_id),
        },
        DESCRIBED_PER_SLICE,
        lambda rows: {"groups": rows},
    )


def _describe(broker: Broker, group_id: str) -> Fields:
    try:
        machine = machine_of(broker, group_id)
        return _group(machine.groups.consumer_describe(group_id, machine.now()))
    except TidelogError as refusal:
        return {"error_code": refusal.code, "error_message": refusal.message, "group_id": group_id}


def _group(group: ConsumerGroupDescription) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "group_id": group.group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.assignor,
        "members": [_member(member) for member in group.members],
    }


def _member(member: ConsumerMemberDescription) -> Fields:
    facts = member.facts
    return {
        "member_id": member.member_id,
        "instance_id": facts.instance_id,
        "rack_id": facts.rack_id,
        "member_epoch": member.epoch,
        "client_id": facts.client_id,
        "client_host": facts.client_host,
        "subscribed_topic_names": facts.topics,
        "subscribed_topic_regex": facts.regex,
        "assignment": _partitions(member.assignment),
        "target_assignment": _partitions(member.target),
        "member_type": CONSUMER_MEMBER if facts.classic is None else CLASSIC_MEMBER,
    }


def _partitions(described: DescribedPartitions) -> Fields:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": name, "partitions": indexes}
            for topic_id, name, indexes in described
        ]
    }
