"""DeleteRecords, versions 0 to 2: raises the log start offset. Ignored: the timeout."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.request import RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields

TO_HIGH_WATERMARK = -1


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_delete(broker, topic.name, wanted) for wanted in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _delete(broker: Broker, topic: str, wanted: Any) -> Fields:
    partition, error = broker.partitions.find(topic, wanted.partition_index)
    if partition is None:
        return _fields(wanted.partition_index, -1, error)
    try:
        partition.delete_records(None if wanted.offset == TO_HIGH_WATERMARK else wanted.offset)
    except TidelogError as refusal:
        return _fields(wanted.partition_index, -1, refusal.code)
    return _fields(wanted.partition_index, partition.log.start_offset, ErrorCode.NONE)


def _fields(index: int, low_watermark: int, error: ErrorCode) -> Fields:
    return {"partition_index": index, "low_watermark": low_watermark, "error_code": error}
