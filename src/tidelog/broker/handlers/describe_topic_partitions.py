"""DescribeTopicPartitions, version 0: topics in pages, for clusters too large for one Metadata response."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.metadata import Absent, describe_partition, why_unknown
from tidelog.broker.requests.request import RequestContext
from tidelog.controller.image import PartitionImage
from tidelog.controller.topics import INTERNAL_TOPICS
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    image = broker.image
    asked = sorted({topic.name for topic in request.topics}) if request.topics else sorted(image.topics)
    first_index = 0
    if request.cursor is not None:
        if request.cursor.partition_index < 0:
            return {"topics": [{"error_code": ErrorCode.INVALID_REQUEST, "name": request.cursor.topic_name}]}
        asked = [name for name in asked if name >= request.cursor.topic_name]
        if asked and asked[0] == request.cursor.topic_name:
            first_index = request.cursor.partition_index
    room = max(1, min(request.response_partition_limit, broker.config.max_request_partition_size_limit))
    described: list[Fields] = []
    for name in asked:
        if room == 0:
            return {"topics": described, "next_cursor": {"topic_name": name, "partition_index": 0}}
        topic = image.topics.get(name)
        if topic is None:
            described.append({"error_code": why_unknown(name), "name": name})
            continue
        topic = broker.newest(topic)
        shown = range(first_index, min(first_index + room, len(topic.partitions)))
        described.append(
            {
                "name": name,
                "topic_id": topic.topic_id,
                "is_internal": name in INTERNAL_TOPICS,
                "partitions": [_describe(broker, index, topic.partitions[index]) for index in shown],
            }
        )
        room -= len(shown)
        first_index = 0
        if shown.stop < len(topic.partitions):
            return {"topics": described, "next_cursor": {"topic_name": name, "partition_index": shown.stop}}
    return {"topics": described}


def _describe(broker: Broker, index: int, partition: PartitionImage) -> Fields:
    eligible = {"eligible_leader_replicas": partition.eligible, "last_known_elr": []}
    return {**describe_partition(index, partition, broker.image, Absent(broker.lost_brokers)), **eligible}
