"""WriteTxnMarkers, versions 1 and 2: a coordinator or an administrator ends a transaction in partitions that
this broker leads.

The response is sent when the markers are committed: a transaction is complete only when no change of leader
can remove its markers. A late marker, which is in the log already or older than one there, gets the same
response but is not written. A marker of an administrator has no coordinator offset and is always written.
"""

from collections.abc import Callable
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.coordinators.marking import write_marker
from tidelog.broker.future import Future, Gather
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol.markers import NO_COORDINATOR_OFFSET, Marker
from tidelog.protocol.messages import Fields
from tidelog.types import TopicPartition


def handle(broker: Broker, request: Any, context: RequestContext) -> Future[Fields]:
    errors: dict[tuple[int, TopicPartition], ErrorCode] = {}
    wanted = [
        (number, marker, TopicPartition(topic.name, index))
        for number, marker in enumerate(request.markers)
        for topic in marker.topics
        for index in topic.partition_indexes
    ]
    gather = Gather(len(wanted))
    for number, marker, name in wanted:
        write_marker(
            broker,
            broker.coordinators.of,
            name,
            marker.producer_id,
            marker.producer_epoch,
            Marker(
                marker.transaction_result,
                marker.coordinator_epoch,
                getattr(marker, "coordinator_offset", NO_COORDINATOR_OFFSET),
            ),
            getattr(marker, "transaction_version", 0),
            _note(errors, (number, name), gather),
        )
    response: Future[Fields] = Future()
    gather.future.then(lambda _: response.complete(_fields(request, errors)))
    return response


def _note(
    errors: dict[tuple[int, TopicPartition], ErrorCode], key: tuple[int, TopicPartition], gather: Gather
) -> Callable[[ErrorCode], None]:
    def done(error: ErrorCode) -> None:
        errors[key] = error
        gather.one_done()

    return done


def _fields(request: Any, errors: dict[tuple[int, TopicPartition], ErrorCode]) -> Fields:
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {
                                "partition_index": index,
                                "error_code": errors[number, TopicPartition(topic.name, index)],
                            }
                            for index in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for number, marker in enumerate(request.markers)
        ]
    }
