"""AddOffsetsToTxn, versions 0 to 4: adds the partition that stores a group's offsets to a transaction."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.coordinators.internal_topics import CONSUMER_OFFSETS
from tidelog.broker.future import Future
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.transacting import answered, for_old_clients, machine_of
from tidelog.errors import ErrorCode, TidelogError
from tidelog.groups.shard import check_group_id
from tidelog.protocol.messages import Fields
from tidelog.transactions.rules import ProducerIdAndEpoch
from tidelog.types import TopicPartition

FENCED_FROM = 2
CLIENT_VERSION = 0  # Clients of transaction version 2 do not send this; TxnOffsetCommit adds the partition.


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    response: Future[Fields] = Future()

    def added(fields: Fields) -> None:
        code = for_old_clients(fields["error_code"], fenced_from=FENCED_FROM, version=context.version)
        response.complete({"error_code": code})

    def ensured(refusal: TidelogError | None) -> None:
        try:
            if refusal is not None:
                raise TidelogError(refusal.message, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            _add(broker, request).then(added)
        except TidelogError as error:
            added({"error_code": error.code})

    broker.coordinators.topics.ensure(CONSUMER_OFFSETS, ensured)
    return response


def _add(broker: Broker, request: Any) -> Future[Fields]:
    check_group_id(request.group_id)
    machine = machine_of(broker, request.transactional_id)
    index = broker.coordinators.groups.partition_of(request.group_id)
    if index is None:
        raise TidelogError(f"{CONSUMER_OFFSETS} does not exist yet", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partitions = frozenset({TopicPartition(CONSUMER_OFFSETS, index)})
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    return answered(
        machine.ask(
            lambda waiter, now: machine.transactions.add_partitions(
                request.transactional_id, producer, partitions, CLIENT_VERSION, waiter, now
            )
        ),
        lambda _: {},
    )
