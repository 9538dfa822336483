"""DescribeProducers, version 0: the known producers of a partition and their open transactions."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.log.producer_format import NO_SEQUENCE
from tidelog.log.producers import NO_OFFSET, ProducerState
from tidelog.protocol.messages import Fields


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [_describe(broker, topic.name, index) for index in topic.partition_indexes],
            }
            for topic in request.topics
        ]
    }


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
