"""InitProducerId, versions 0 to 6: the producer id and epoch that identify retries and transactions.

Without a transactional id every request gets a new id with epoch 0, as in Kafka; an idempotent producer
raises its epoch by itself. With a transactional id the epoch is raised, which fences all earlier producers.
An open transaction of theirs is aborted first; until then the response is CONCURRENT_TRANSACTIONS. Refused:
two-phase commit.
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.coordinators.producer_ids import Grant
from tidelog.broker.future import Future
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.transacting import answered, for_old_clients, machine_of
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields, milliseconds
from tidelog.transactions.rules import ProducerIdAndEpoch

NO_PRODUCER_ID = -1
NO_EPOCH = -1
FENCED_FROM = 4


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    expected = ProducerIdAndEpoch(
        getattr(request, "producer_id", NO_PRODUCER_ID), getattr(request, "producer_epoch", NO_EPOCH)
    )
    if (expected.producer_id == NO_PRODUCER_ID) != (expected.epoch == NO_EPOCH):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        return _transactional(broker, request, expected, context)
    response: Future[Fields] = Future()
    broker.producer_ids.next().then(lambda grant: response.complete(_granted(grant)))
    return response


def _granted(grant: Grant) -> Fields:
    if isinstance(grant, int):
        return _fields(ProducerIdAndEpoch(grant, 0))
    # Whatever the controller's error was, clients retry on this code.
    return _refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _transactional(
    broker: Broker, request: Any, expected: ProducerIdAndEpoch, context: RequestContext
) -> Outcome:
    if getattr(request, "enable2_pc", False):
        return _refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if getattr(request, "keep_prepared_txn", False):
        return _refused(ErrorCode.UNSUPPORTED_VERSION)
    try:
        machine = machine_of(broker, request.transactional_id)
    except TidelogError as refusal:
        return _refused(refusal.code)
    known = None if expected.producer_id == NO_PRODUCER_ID else expected
    timeout_ms = milliseconds(request.transaction_timeout)
    started = machine.ask(
        lambda waiter, now: machine.transactions.init_producer(
            request.transactional_id, timeout_ms, known, waiter, now
        )
    )
    response: Future[Fields] = Future()

    def done(fields: Fields) -> None:
        code = for_old_clients(fields["error_code"], fenced_from=FENCED_FROM, version=context.version)
        response.complete(_refused(code) if code else fields)

    answered(started, _fields).then(done)
    return response


def _fields(producer: ProducerIdAndEpoch) -> Fields:
    return {
        "error_code": ErrorCode.NONE,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
    }


def _refused(code: ErrorCode) -> Fields:
    return {"error_code": code, "producer_id": NO_PRODUCER_ID, "producer_epoch": NO_EPOCH}
