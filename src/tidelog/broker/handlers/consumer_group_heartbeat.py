"""ConsumerGroupHeartbeat, versions 0 and 1: members join, leave and get their assignments with it."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from tidelog import regex
from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.requests.access import access_of, sees_topic
from tidelog.broker.requests.coordination import answered, client_host, machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.consumer.heartbeats import Heartbeat, HeartbeatResponse
from tidelog.groups.consumer.partitions import Held, Partitions, partitions_of
from tidelog.protocol.messages import ZERO_UUID, Fields, milliseconds

MATCHED_PER_SLICE = 2000  # names of topics: about 2 ms, and 3 ms for each with the worst expressions
CHOOSES_ITS_ID_FROM = 1  # In version 0 the broker generates the id of a member that joins.


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    try:
        machine = machine_of(broker, request.group_id)
    except TidelogError as refusal:
        return _fields(refusal)
    access = access_of(broker, context)
    matches = regex.Matches() if access is None else regex.Matches(partial(sees_topic, access), access.rules)
    beat = _heartbeat(broker, request, context, matches)

    def match_each() -> Iterator[None]:
        for pattern, name in machine.groups.names_to_match(request.group_id, beat.regex, matches.rules):
            beat.matches.find(pattern, name)
            yield

    def respond() -> Future[Fields]:
        promise = machine.ask(
            lambda waiter, now: machine.groups.consumer_heartbeat(
                request.group_id, beat, context.version, waiter, now
            )
        )
        return answered(promise, _fields)

    try:
        if beat.regex:
            regex.check(beat.regex)
    except TidelogError:
        return respond()  # It is refused.
    return respond_in_slices(broker.services, match_each(), MATCHED_PER_SLICE, respond)


def _heartbeat(broker: Broker, request: Any, context: RequestContext, matches: regex.Matches) -> Heartbeat:
    member_id = request.member_id
    if not member_id and request.member_epoch == 0 and context.version < CHOOSES_ITS_ID_FROM:
        member_id = str(broker.services.new_uuid())
    return Heartbeat(
        member_id=member_id,
        epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=client_host(context),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        topics=request.subscribed_topic_names,
        regex=getattr(request, "subscribed_topic_regex", None),
        assignor=request.server_assignor,
        owned=_owned(request.topic_partitions),
        matches=matches,
    )


def _owned(topics: Iterable[Any] | None) -> Partitions | None:
    if topics is None:
        return None
    return partitions_of((topic.topic_id or ZERO_UUID, topic.partitions) for topic in topics)


def _fields(response: HeartbeatResponse | TidelogError) -> Fields:
    if isinstance(response, TidelogError):
        return {"error_code": response.code, "error_message": response.message, "member_id": None}
    return {
        "error_code": ErrorCode.NONE,
        "member_id": response.member_id,
        "member_epoch": response.epoch,
        "heartbeat_interval": response.heartbeat_interval_ms,
        "assignment": None if response.assignment is None else _assignment(response.assignment),
    }


def _assignment(held: Held) -> Fields:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "partitions": sorted(epochs)} for topic_id, epochs in held.items()
        ]
    }
