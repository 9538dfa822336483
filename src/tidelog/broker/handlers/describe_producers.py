"""DescribeProducers, version 0: the known producers of a partition and their open transactions."""

from collections.abc import Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode
from tidelog.log.producer_format import NO_SEQUENCE
from tidelog.log.producers import NO_OFFSET, ProducerState
from tidelog.protocol.messages import Fields

DESCRIBED_PER_SLICE = 100  # partitions


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    # Each partition once: a response may be ten thousand times larger.
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics: list[Fields] = []

    def describe_each() -> Iterator[None]:
        for name, indexes in wanted.items():
            rows: list[Fields] = []
            topics.append({"name": name, "partitions": rows})
            for index in indexes:
                rows.append(_describe(broker, name, index))
                yield

    return respond_in_slices(
        broker.services, describe_each(), DESCRIBED_PER_SLICE, lambda: {"topics": topics}
    )


def _describe(broker: Broker, topic: str, index: int) -> Fields:
    partition, error = broker.partitions.find(topic, index)
    producers: list[Fields] = []
    if partition is not None and not partition.leads:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    elif partition is not None:
        known = partition.log.producers
        known.expire(broker.services.now_ms())
        producers = [
            _fields(producer_id, producer, known.transactions.open.get(producer_id, NO_OFFSET))
            for producer_id, producer in known
        ]
    return {"partition_index": index, "error_code": error, "active_producers": producers}


def _fields(producer_id: int, producer: ProducerState, first_offset: int) -> Fields:
    last = producer.last
    return {
        "producer_id": producer_id,
        "producer_epoch": producer.epoch,
        "last_sequence": NO_SEQUENCE if last is None else last.last_sequence,
        "last_timestamp": producer.seen_ms,
        "coordinator_epoch": producer.coordinator_epoch,
        "current_txn_start_offset": first_offset,
    }
