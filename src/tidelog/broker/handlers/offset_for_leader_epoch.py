"""OffsetForLeaderEpoch, versions 2 to 4: the end offset of an epoch, so that consumers detect truncation."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.protocol.messages import Fields

OFFSET_MAX = (1 << 63) - 1


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [_look_up(broker, topic.topic, wanted) for wanted in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _look_up(broker: Broker, topic: str, wanted: Any) -> Fields:
    partition, error = broker.partitions.find(topic, wanted.partition)
    if partition is not None:
        error = partition.check_reader(wanted.current_leader_epoch)
    epoch, end_offset = -1, -1
    if partition is not None and not error:
        if partition.stands_in and wanted.leader_epoch >= partition.log.epochs.latest:
            # The primary may have served more records than this stand-in has. They are not truncated.
            epoch, end_offset = wanted.leader_epoch, OFFSET_MAX
        elif wanted.leader_epoch == partition.leader_epoch:
            epoch, end_offset = partition.leader_epoch, partition.log.end_offset
        else:
            epoch, end_offset = partition.log.epochs.end_offset_for(
                wanted.leader_epoch, partition.log.end_offset
            )
    return {
        "error_code": error,
        "partition": wanted.partition,
        "leader_epoch": epoch,
        "end_offset": end_offset,
    }
