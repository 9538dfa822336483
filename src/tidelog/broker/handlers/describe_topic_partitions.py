"""DescribeTopicPartitions, version 0: topics in pages, for clusters too large for one Metadata response."""

from collections.abc import Iterable, Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.metadata import Absent, describe_partition, why_unknown
from tidelog.broker.requests.access import access_of, operations_for, sees_topic
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.controller.image import PartitionImage, TopicImage
from tidelog.controller.topics import INTERNAL_TOPICS
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.security.acls import Operation, ResourceType

DESCRIBED_PER_SLICE = 500  # partitions, and topics that do not exist: about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    asked, refused = _shown(broker, request, context)
    first_index = 0
    if request.cursor is not None:
        if request.cursor.partition_index < 0:
            return {"topics": [{"error_code": ErrorCode.INVALID_REQUEST, "name": request.cursor.topic_name}]}
        asked = [name for name in asked if name >= request.cursor.topic_name]
        if asked and asked[0] == request.cursor.topic_name:
            first_index = request.cursor.partition_index
    room = max(1, min(request.response_partition_limit, broker.config.max_request_partition_size_limit))
    page = _Page(broker, context, room, refused)
    return respond_in_slices(
        broker.services, page.describe(asked, first_index), DESCRIBED_PER_SLICE, page.response
    )


def _shown(broker: Broker, request: Any, context: RequestContext) -> tuple[list[str], list[str]]:
    """The topics that the client asks for, and may see; and those that it may not."""
    access = access_of(broker, context)
    if not request.topics:
        return sorted(name for name in broker.image.topics if sees_topic(access, name)), []
    asked = sorted({topic.name for topic in request.topics})
    if access is None:
        return asked, []
    may_see = {name: access.topic(Operation.DESCRIBE, name) for name in asked}
    return [name for name in asked if may_see[name]], [name for name in asked if not may_see[name]]


class _Page:
    """What one response describes. All of it is of one image."""

    def __init__(self, broker: Broker, context: RequestContext, room: int, refused: list[str]) -> None:
        """``refused``: topics that were named, and that the client may not see."""
        self._broker = broker
        self._context = context
        self._image = broker.image
        self._absent = Absent(broker.lost_brokers)
        self._room = room  # partitions that still fit
        self._described: list[Fields] = [
            {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "name": name} for name in refused
        ]
        self._next_cursor: Fields | None = None

    def response(self) -> Fields:
        return {"topics": self._described, "next_cursor": self._next_cursor}

    def describe(self, names: Iterable[str], first_index: int) -> Iterator[None]:
        """One partition, or one topic that does not exist, per step. ``first_index``: in the first topic."""
        for name in names:
            if self._room == 0:
                self._next_cursor = {"topic_name": name, "partition_index": 0}
                return
            topic = self._image.topics.get(name)
            if topic is None:
                self._described.append({"error_code": why_unknown(name), "name": name})
                yield
            else:
                yield from self._describe_topic(self._broker.newest(topic), first_index)
            first_index = 0  # also if the first topic was deleted after the last page
            if self._next_cursor is not None:
                return

    def _describe_topic(self, topic: TopicImage, first_index: int) -> Iterator[None]:
        shown = range(first_index, min(first_index + self._room, len(topic.partitions)))
        self._room -= len(shown)
        if shown.stop < len(topic.partitions):
            self._next_cursor = {"topic_name": topic.name, "partition_index": shown.stop}
        rows: list[Fields] = []
        self._described.append(
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "is_internal": topic.name in INTERNAL_TOPICS,
                "partitions": rows,
                "topic_authorized_operations": operations_for(
                    self._broker, self._context, ResourceType.TOPIC, topic.name
                ),
            }
        )
        for index in shown:
            rows.append(self._describe(index, topic.partitions[index]))
            yield

    def _describe(self, index: int, partition: PartitionImage) -> Fields:
        eligible = {"eligible_leader_replicas": partition.eligible, "last_known_elr": []}
        return {**describe_partition(index, partition, self._image, self._absent), **eligible}
