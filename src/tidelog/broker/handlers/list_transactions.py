"""ListTransactions, versions 0 to 2: the transactional ids that this broker coordinates, by state, producer,
age (since 1) or a pattern of the id (since 2)."""

import re
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import RequestContext
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.transactions.states import BY_LABEL
from tidelog.transactions.transaction import Transaction


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    if broker.coordinators.transactions.loading:
        return {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    try:
        pattern = re.compile(getattr(request, "transactional_id_pattern", None) or "")
    except re.error:
        return {"error_code": ErrorCode.INVALID_REGULAR_EXPRESSION}
    states = {BY_LABEL[label] for label in request.state_filters if label in BY_LABEL}
    producer_ids = set(request.producer_id_filters)
    longer_than_ms = getattr(request, "duration_filter", -1)
    now_ms = broker.services.now_ms()

    def wanted(transaction: Transaction) -> bool:
        # An id without an open transaction has no real age. As in Kafka, it counts from the last start or
        # 1970.
        return (
            (not request.state_filters or transaction.state in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (longer_than_ms < 0 or now_ms - transaction.started_ms > longer_than_ms)
            and (not pattern.pattern or pattern.fullmatch(transaction.transactional_id) is not None)
        )

    return {
        "error_code": ErrorCode.NONE,
        "unknown_state_filters": [label for label in request.state_filters if label not in BY_LABEL],
        "transaction_states": [
            _fields(transaction)
            for machine in broker.coordinators.transactions.machines()
            for transaction in machine.transactions
            if wanted(transaction)
        ],
    }


def _fields(transaction: Transaction) -> Fields:
    return {
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "transaction_state": transaction.state.label,
    }
