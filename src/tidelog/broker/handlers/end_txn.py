"""EndTxn, versions 0 to 5: commits or aborts a transaction.

From version 5 on the response contains the id and epoch of the producer's next transaction (KIP-890).
"""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.transacting import answered, for_old_clients, machine_of
from tidelog.errors import TidelogError
from tidelog.protocol.messages import Fields
from tidelog.transactions.rules import EndRequest, ProducerIdAndEpoch
from tidelog.transactions.transaction import EPOCH_BUMP_VERSION

FENCED_FROM = 2
EPOCH_BUMP_FROM = 5


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    client_version = EPOCH_BUMP_VERSION if context.version >= EPOCH_BUMP_FROM else 0
    end = EndRequest(
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch), request.committed, client_version
    )
    try:
        machine = machine_of(broker, request.transactional_id)
    except TidelogError as refusal:
        return {"error_code": refusal.code}
    ended = machine.ask(
        lambda waiter, now: machine.transactions.end(request.transactional_id, end, waiter, now)
    )
    response: Future[Fields] = Future()

    def done(fields: Fields) -> None:
        code = for_old_clients(fields["error_code"], fenced_from=FENCED_FROM, version=context.version)
        response.complete({**fields, "error_code": code})

    answered(ended, _next_producer).then(done)
    return response


def _next_producer(producer: ProducerIdAndEpoch) -> Fields:
    return {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
