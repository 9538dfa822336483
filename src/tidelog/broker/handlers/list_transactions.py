"""ListTransactions, versions 0 to 2: the transactional ids that this broker coordinates, by state, producer,
age (since 1) or a pattern of the id (since 2)."""

from collections.abc import Iterator
from typing import Any

from tidelog import regex
from tidelog.broker.broker import Broker
from tidelog.broker.requests.access import access_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.security.acls import Operation, ResourceType
from tidelog.transactions.states import BY_LABEL
from tidelog.transactions.transaction import Transaction

TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
LOOKED_AT_PER_SLICE = 1000  # about 2 ms
PATTERN_STEPS_MAX = 1000  # An id may have 32 KB, for which so many steps take some milliseconds.


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    if broker.coordinators.transactions.loading:
        return {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    pattern = getattr(request, "transactional_id_pattern", None)
    if pattern:
        try:
            regex.check(pattern, PATTERN_STEPS_MAX)
        except TidelogError as refusal:
            return {"error_code": refusal.code}
    states = {BY_LABEL[label] for label in request.state_filters if label in BY_LABEL}
    producer_ids = set(request.producer_id_filters)
    longer_than_ms = getattr(request, "duration_filter", -1)
    access = access_of(broker, context)
    now_ms = broker.services.now_ms()

    def wanted(transaction: Transaction) -> bool:
        # An id without an open transaction has no real age. As in Kafka, it counts from the last start or
        # 1970.
        return (
            (not request.state_filters or transaction.state in states)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (longer_than_ms < 0 or now_ms - transaction.started_ms > longer_than_ms)
            and (not pattern or regex.matches(pattern, transaction.transactional_id))
            and (
                access is None
                or access.sees(Operation.DESCRIBE, TRANSACTIONAL_ID, transaction.transactional_id)
            )
        )

    rows: list[Fields] = []

    def look_at_each() -> Iterator[None]:
        for machine in list(broker.coordinators.transactions.machines()):
            for transaction in machine.transactions:  # those of this moment
                if wanted(transaction):
                    rows.append(_fields(transaction))
                yield

    def respond() -> Fields:
        return {
            "error_code": ErrorCode.NONE,
            "unknown_state_filters": [label for label in request.state_filters if label not in BY_LABEL],
            "transaction_states": rows,
        }

    return respond_in_slices(broker.services, look_at_each(), LOOKED_AT_PER_SLICE, respond)


def _fields(transaction: Transaction) -> Fields:
    return {
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "transaction_state": transaction.state.label,
    }
