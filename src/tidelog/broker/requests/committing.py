"""Shared by OffsetCommit and TxnOffsetCommit: the check that topics exist, and the response."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.requests.coordination import answered
from tidelog.broker.requests.request import Outcome
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.offset_requests import OffsetToCommit
from tidelog.protocol.messages import ZERO_UUID, Fields


class CommitItem(NamedTuple):
    """One partition of a request, in the order of the response."""

    topic: Any  # as in the request
    partition: Any
    offset: OffsetToCommit | None  # None if the topic is unknown
    error: ErrorCode


def read(broker: Broker, topics: Sequence[Any]) -> list[CommitItem]:
    """Every partition of a request, with the name of its topic."""
    wanted = []
    for topic in topics:
        name, error = topic_name(broker, topic)
        for partition in topic.partitions:
            offset = None
            if not error:
                offset = OffsetToCommit(
                    name,
                    partition.partition_index,
                    partition.committed_offset,
                    getattr(partition, "committed_leader_epoch", -1),
                    partition.committed_metadata,
                )
            wanted.append(CommitItem(topic, partition, offset, error))
    return wanted


def topic_name(broker: Broker, topic: Any) -> tuple[str, ErrorCode]:
    """The name of a topic that a request identifies by name or id."""
    if hasattr(topic, "topic_id"):
        topic_id: UUID = topic.topic_id or ZERO_UUID
        found = broker.image.topic_names.get(topic_id)
        return ("", ErrorCode.UNKNOWN_TOPIC_ID) if found is None else (found, ErrorCode.NONE)
    if topic.name not in broker.image.topics:
        return topic.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return topic.name, ErrorCode.NONE


def commit(wanted: Sequence[CommitItem], begin: Callable[[list[OffsetToCommit]], Future[Any]]) -> Outcome:
    """Commit the offsets of existing topics and respond for every partition. If ``begin`` raises, its error
    applies to all of them.
    """
    offsets = [one.offset for one in wanted if one.offset is not None]
    if not offsets:
        return _fields(wanted, [])

    def fields(response: list[ErrorCode] | TidelogError) -> Fields:
        errors = [response.code] * len(offsets) if isinstance(response, TidelogError) else response
        return _fields(wanted, errors)

    try:
        return answered(begin(offsets), fields)
    except TidelogError as refusal:
        return fields(refusal)


def _fields(wanted: Sequence[CommitItem], errors: list[ErrorCode]) -> Fields:
    """``errors``: one for each offset that was passed to ``begin``, in order."""
    told = iter(errors)
    topics: dict[int, dict[str, Any]] = {}
    for one in wanted:
        topic = topics.get(id(one.topic))
        if topic is None:
            topic = topics[id(one.topic)] = {
                "name": getattr(one.topic, "name", ""),
                "topic_id": getattr(one.topic, "topic_id", None),
                "partitions": [],
            }
        error = one.error if one.offset is None else next(told)
        topic["partitions"].append({"partition_index": one.partition.partition_index, "error_code": error})
    return {"topics": list(topics.values())}
