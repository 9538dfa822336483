"""WriteTxnMarkers, versions 1 and 2: a coordinator or an administrator ends a transaction in partitions that
this broker leads.

The response is sent when the markers are committed: a transaction is complete only when no change of leader
can remove its markers. A late marker, which is in the log already or older than one there, gets the same
response but is not written. A marker of an administrator has no coordinator offset and is always written.
"""

from collections.abc import Callable, Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.coordinators.marking import write_marker
from tidelog.broker.future import Future, Gather
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode
from tidelog.protocol.markers import NO_COORDINATOR_OFFSET, Marker
from tidelog.protocol.messages import Fields
from tidelog.types import TopicPartition

WRITTEN_PER_SLICE = 50  # about 3 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    rows: list[Fields] = []
    gather = Gather(1)  # until all are begun

    def write_each() -> Iterator[None]:
        for marker in request.markers:
            topics: dict[str, dict[int, dict[str, Any]]] = {}
            rows.append({"producer_id": marker.producer_id, "topics": topics})
            for topic in marker.topics:
                written = topics.setdefault(topic.name, {})
                for index in topic.partition_indexes:
                    if index in written:
                        continue  # A partition that a marker names twice gets it once.
                    written[index] = row = {"partition_index": index}
                    gather.add()
                    note = _note(row, gather)
                    if marker.transaction_result and not context.by_node:
                        note(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
                    else:
                        _write(broker, marker, TopicPartition(topic.name, index), note)
                    yield

    def respond() -> Future[Fields]:
        response: Future[Fields] = Future()
        gather.future.then(lambda _: response.complete(_fields(rows)))
        gather.one_done()
        return response

    return respond_in_slices(broker.services, write_each(), WRITTEN_PER_SLICE, respond)


def _write(broker: Broker, wanted: Any, name: TopicPartition, done: Callable[[ErrorCode], None]) -> None:
    marker = Marker(
        wanted.transaction_result,
        wanted.coordinator_epoch,
        getattr(wanted, "coordinator_offset", NO_COORDINATOR_OFFSET),
    )
    version = getattr(wanted, "transaction_version", 0)
    write_marker(
        broker, broker.coordinators.of, name, wanted.producer_id, wanted.producer_epoch, marker, version, done
    )


def _note(row: dict[str, Any], gather: Gather) -> Callable[[ErrorCode], None]:
    def done(error: ErrorCode) -> None:
        row["error_code"] = error
        gather.one_done()

    return done


def _fields(rows: list[Fields]) -> Fields:
    return {
        "markers": [
            {
                "producer_id": row["producer_id"],
                "topics": [
                    {"name": name, "partitions": list(partitions.values())}
                    for name, partitions in row["topics"].items()
                ],
            }
            for row in rows
        ]
    }
