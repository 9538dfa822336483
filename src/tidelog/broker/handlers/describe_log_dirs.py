"""DescribeLogDirs, versions 1 to 5: the size and lag of each replica on this broker, and the usage of the
volume.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    wanted = (
        None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
    )
    topics: dict[str, list[Fields]] = {}
    for partition in broker.partitions:
        name = partition.name
        if wanted is not None and name.partition not in wanted.get(name.topic, ()):
            continue
        topics.setdefault(name.topic, []).append(
            {
                "partition_index": name.partition,
                "partition_size": partition.log.size_bytes,
                "offset_lag": partition.replica.watermark.lacks(partition.log.end_offset),
            }
        )
    total_bytes, usable_bytes = broker.partitions.disk_usage()
    directory = {
        "log_dir": broker.partitions.data_path,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        "total_bytes": total_bytes,
        "usable_bytes": usable_bytes,
    }
    return {"results": [directory]}
