"""OffsetDelete, version 0: deletes committed offsets of topics to which no member is subscribed."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.committing import topic_name
from tidelog.broker.requests.coordination import answered, machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    # Each partition once: a tombstone is written for it.
    wanted = {
        (topic.name, partition.partition_index): error
        for topic in request.topics
        for error in (topic_name(broker, topic)[1],)
        for partition in topic.partitions
    }
    keys = [key for key, error in wanted.items() if not error]

    def fields(response: list[ErrorCode] | TidelogError) -> Fields:
        if isinstance(response, TidelogError):
            return {"error_code": response.code, "topics": []}
        told = iter(response)
        topics: dict[str, list[Fields]] = {topic.name: [] for topic in request.topics}
        for (name, index), error in wanted.items():
            topics[name].append({"partition_index": index, "error_code": error or next(told)})
        return {
            "error_code": ErrorCode.NONE,
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }

    try:
        machine = machine_of(broker, request.group_id)
    except TidelogError as refusal:
        return fields(refusal)
    return answered(
        machine.ask(lambda waiter, now: machine.groups.delete_offsets(request.group_id, keys, waiter, now)),
        fields,
    )
