"""AddPartitionsToTxn, versions 0 to 5: adds partitions to a transaction.

Up to version 3 the sender is a client, with one transaction per request. From version 4 on it is a broker,
with many transactions per request; it may also only check that the partitions were added (``verify_only``).
If a partition does not exist, all others of the request are refused as well (OPERATION_NOT_ATTEMPTED), as in
Kafka.
"""

from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future, Gather
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.transacting import for_old_clients, machine_of
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.transactions.rules import ProducerIdAndEpoch
from tidelog.transactions.transaction import EPOCH_BUMP_VERSION
from tidelog.types import TopicPartition

BATCHED_FROM = 4  # Only brokers send it, as in Kafka.
FENCED_FROM = 2
ADDED_WITH_RECORDS_FROM = 5  # sent by a partition's leader for a client of transaction version 2

Errors = Mapping[TopicPartition, ErrorCode]


class _RequestItem(NamedTuple):
    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Set[TopicPartition]
    verify_only: bool


ADDED_PER_SLICE = 100  # transactions: about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    items = _request_items(request, context.version)
    client_version = EPOCH_BUMP_VERSION if context.version >= ADDED_WITH_RECORDS_FROM else 0
    response: Future[Fields] = Future()
    if len(items) == 1:
        _carry_out(broker, items[0], client_version).then(
            lambda errors: response.complete(_fields(items, [errors], context.version))
        )
        return response
    results: list[Errors] = [{} for _ in items]
    gather = Gather(len(items))

    def add_each() -> Iterator[None]:
        for number, item in enumerate(items):

            def done(errors: Errors, number: int = number) -> None:
                results[number] = errors
                gather.one_done()

            _carry_out(broker, item, client_version).then(done)
            yield

    def respond() -> Future[Fields]:
        gather.future.then(lambda _: response.complete(_fields(items, results, context.version)))
        return response

    return respond_in_slices(broker.services, add_each(), ADDED_PER_SLICE, respond)


def _request_items(request: Any, version: int) -> list[_RequestItem]:
    if version >= BATCHED_FROM:
        return [
            _RequestItem(
                each.transactional_id,
                ProducerIdAndEpoch(each.producer_id, each.producer_epoch),
                _partitions(each.topics),
                each.verify_only,
            )
            for each in request.transactions
        ]
    producer = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    partitions = _partitions(request.v3_and_below_topics)
    return [_RequestItem(request.v3_and_below_transactional_id, producer, partitions, False)]


def _partitions(topics: Any) -> Set[TopicPartition]:
    return frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _carry_out(broker: Broker, item: _RequestItem, client_version: int) -> Future[Errors]:
    errors: Future[Errors] = Future()
    missing = _missing(broker, item.partitions)
    if missing:
        errors.complete(
            {
                each: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if each in missing
                else ErrorCode.OPERATION_NOT_ATTEMPTED
                for each in item.partitions
            }
        )
        return errors
    try:
        machine = machine_of(broker, item.transactional_id)
        if item.verify_only:
            verified = machine.transactions.verify_partitions(
                item.transactional_id, item.producer, item.partitions
            )
            replaced = dict.fromkeys(item.partitions, ErrorCode.NOT_COORDINATOR)
            machine.when_certain(lambda certain: errors.complete(verified if certain else replaced))
            return errors
    except TidelogError as refusal:
        errors.complete(dict.fromkeys(item.partitions, refusal.code))
        return errors

    def heard(response: TidelogError | None) -> None:
        code = ErrorCode.NONE if response is None else response.code
        errors.complete(dict.fromkeys(item.partitions, code))

    machine.ask(
        lambda waiter, now: machine.transactions.add_partitions(
            item.transactional_id, item.producer, item.partitions, client_version, waiter, now
        )
    ).then(heard)
    return errors


def _missing(broker: Broker, partitions: Set[TopicPartition]) -> Set[TopicPartition]:
    topics = broker.image.topics
    return {
        each
        for each in partitions
        if each.topic not in topics or not 0 <= each.partition < len(topics[each.topic].partitions)
    }


def _fields(items: list[_RequestItem], results: list[Errors], version: int) -> Fields:
    if version < BATCHED_FROM:
        return {"results_by_topic_v3_and_below": _by_topic(results[0], version)}
    return {
        "error_code": ErrorCode.NONE,
        "results_by_transaction": [
            {"transactional_id": item.transactional_id, "topic_results": _by_topic(errors, version)}
            for item, errors in zip(items, results, strict=True)
        ],
    }


def _by_topic(errors: Errors, version: int) -> list[Fields]:
    topics: dict[str, list[Fields]] = {}
    for (topic, index), code in sorted(errors.items()):
        code = for_old_clients(code, fenced_from=FENCED_FROM, version=version)
        topics.setdefault(topic, []).append({"partition_index": index, "partition_error_code": code})
    return [{"name": topic, "results_by_partition": results} for topic, results in topics.items()]
