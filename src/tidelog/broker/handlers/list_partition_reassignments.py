"""ListPartitionReassignments, version 0: ongoing reassignments, with the replicas still to add and to remove.
Ignored: the timeout.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.controller import reassignment
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    wanted = (
        None
        if request.topics is None
        else {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    )
    topics: dict[str, list[Fields]] = {}
    for topic, index, partition in reassignment.ongoing(broker.image):
        if wanted is not None and (topic.name, index) not in wanted:
            continue
        topics.setdefault(topic.name, []).append(
            {
                "partition_index": index,
                "replicas": partition.replicas,
                "adding_replicas": partition.adding,
                "removing_replicas": partition.removing,
            }
        )
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
