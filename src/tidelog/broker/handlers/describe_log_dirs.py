"""DescribeLogDirs, versions 1 to 5: the size and lag of each replica on this broker, and the usage of the
volume.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, StorageError
from tidelog.protocol.messages import Fields

UNKNOWN_BYTES = -1  # as in Kafka
LOOKED_AT_PER_SLICE = 500  # partitions: about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    wanted = (
        None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
    )
    topics: dict[str, list[Fields]] = {}

    def look_at_each() -> Iterator[None]:
        for partition in list(broker.partitions):
            name = partition.name
            if wanted is None or name.partition in wanted.get(name.topic, ()):
                topics.setdefault(name.topic, []).append(
                    {
                        "partition_index": name.partition,
                        "partition_size": partition.log.size_bytes,
                        "offset_lag": partition.replica.watermark.lacks(partition.log.end_offset),
                    }
                )
            yield

    def respond() -> Fields:
        return _directory(broker, topics)

    return respond_in_slices(broker.services, look_at_each(), LOOKED_AT_PER_SLICE, respond)


def _directory(broker: Broker, topics: Mapping[str, list[Fields]]) -> Fields:
    # Kafka leaves out the replicas then. They are of use to an operator all the same.
    failed = broker.partitions.has_failed_logs
    try:
        total_bytes, usable_bytes = broker.partitions.disk_usage()
    except StorageError:  # The directory, or its volume, was removed.
        failed, total_bytes, usable_bytes = True, UNKNOWN_BYTES, UNKNOWN_BYTES
    directory = {
        "error_code": ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.NONE,
        "log_dir": broker.partitions.data_path,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
    }
    return {"results": [directory]}
