"""ListOffsets, versions 1 to 11: earliest, latest, by time, of the newest timestamp, and the local log start.

With the isolation level read_committed nothing behind the last stable offset is found. Kafka's special
timestamps for tiered storage (-5, -6) are answered as for a log that has no tiers.

A new leader may not know yet how far its predecessor's readers got. Until it does, which is a matter of a few
fetches, it says so (OFFSET_NOT_AVAILABLE, and LEADER_NOT_AVAILABLE before version 5): the end that clients
see must not go back.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.partition import Partition
from tidelog.broker.request import RequestContext
from tidelog.errors import ErrorCode, TidelogError
from tidelog.log.verification import DamagedSegment
from tidelog.protocol.messages import Fields

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    -1,
    -2,
    -3,
    -4,
    -5,
    -6,
)
OLDEST_VERSION_WITH = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch)"""
NOTHING: Found = (-1, -1, -1)
FROM_THE_START = (EARLIEST, EARLIEST_LOCAL)
NOT_AVAILABLE_FROM_VERSION = 5


READ_COMMITTED = 1
ANY_REPLICA = -2  # As the asker's id, as in Kafka: somebody who looks at this very replica, leader or not.


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    if request.replica_id == ANY_REPLICA:
        return {"topics": [_ends_of(broker, topic) for topic in request.topics]}
    committed = getattr(request, "isolation_level", 0) == READ_COMMITTED
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    _look_up(broker, topic.name, wanted, context.version, committed)
                    for wanted in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


def _ends_of(broker: Broker, topic: Any) -> Fields:
    """Where the logs on this broker begin and end, whatever is committed of them."""
    rows = []
    for wanted in topic.partitions:
        partition, error = broker.partitions.find(topic.name, wanted.partition_index)
        found = NOTHING
        if partition is not None and wanted.timestamp == LATEST:
            found = -1, partition.log.end_offset, partition.replica.last_epoch
        elif partition is not None and wanted.timestamp in FROM_THE_START:
            found = _find(partition, EARLIEST, 0)
        elif partition is not None:
            error = ErrorCode.INVALID_REQUEST
        rows.append(_fields(wanted.partition_index, error, found))
    return {"name": topic.name, "partitions": rows}


def _look_up(broker: Broker, topic: str, wanted: Any, version: int, committed: bool) -> Fields:
    partition, error = broker.partitions.find(topic, wanted.partition_index)
    if partition is not None:
        error = partition.check_reader(getattr(wanted, "current_leader_epoch", -1))
    if partition is None or error:
        return _fields(wanted.partition_index, error, NOTHING)
    if version < OLDEST_VERSION_WITH.get(wanted.timestamp, 0) or wanted.timestamp < EARLIEST_PENDING_UPLOAD:
        return _fields(wanted.partition_index, ErrorCode.UNSUPPORTED_VERSION, NOTHING)
    if wanted.timestamp not in FROM_THE_START and not partition.knows_committed:
        code = ErrorCode.OFFSET_NOT_AVAILABLE
        if version < NOT_AVAILABLE_FROM_VERSION:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return _fields(wanted.partition_index, code, NOTHING)
    try:
        end_offset = partition.last_stable_offset if committed else partition.readable_end_offset
        found = _find(partition, wanted.timestamp, end_offset)
        return _fields(wanted.partition_index, ErrorCode.NONE, found)
    except TidelogError as refusal:
        if isinstance(refusal, DamagedSegment):
            partition.hosted.damaged(refusal.offset, refusal.message)
        return _fields(wanted.partition_index, refusal.code, NOTHING)


def _find(partition: Partition, timestamp: int, end_offset: int) -> Found:
    log = partition.log
    if timestamp == LATEST:
        return -1, end_offset, partition.leader_epoch
    if timestamp in FROM_THE_START:
        return -1, log.start_offset, log.epochs.epoch_at(log.start_offset)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING
    if timestamp == MAX_TIMESTAMP:
        return log.find_max_timestamp(end_offset) or NOTHING
    return log.find_timestamp(timestamp, end_offset) or NOTHING


def _fields(index: int, error: ErrorCode, found: Found) -> Fields:
    timestamp, offset, leader_epoch = found
    return {
        "partition_index": index,
        "error_code": error,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": leader_epoch,
    }
