"""DescribeTransactions, version 0: the coordinator's state of transactional ids."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.requests.transacting import machine_of, refused_transaction
from tidelog.broker.slices import describe_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields
from tidelog.transactions.transaction import Transaction

DESCRIBED_PER_SLICE = 100  # about 2 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    return describe_in_slices(
        broker.services,
        dict.fromkeys(request.transactional_ids),  # A response may be ten thousand times larger.
        lambda transactional_id: _describe(broker, transactional_id),
        DESCRIBED_PER_SLICE,
        lambda rows: {"transaction_states": rows},
    )


def _describe(broker: Broker, transactional_id: str) -> Fields:
    try:
        transaction = machine_of(broker, transactional_id).transactions.get(transactional_id)
    except TidelogError as refusal:
        return refused_transaction(transactional_id, refusal.code)
    if transaction is None:
        return refused_transaction(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return _fields(transaction)


def _fields(transaction: Transaction) -> Fields:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return {
        "error_code": ErrorCode.NONE,
        "transactional_id": transaction.transactional_id,
        "transaction_state": transaction.state.label,
        "transaction_timeout": transaction.timeout_ms,
        "transaction_start_time": transaction.started_ms,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.epoch,
        "topics": [{"topic": topic, "partitions": indexes} for topic, indexes in topics.items()],
    }
