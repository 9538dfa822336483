"""Shared by all handlers that use the coordinator of a transaction."""

from collections.abc import Callable
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.coordinators.transaction_machine import TransactionMachine
from tidelog.broker.future import Future
from tidelog.errors import ErrorCode, InvalidRequest, TidelogError
from tidelog.protocol.messages import Fields

TRANSACTIONAL_ID_MAX = 32_767  # in bytes, so that it fits into a record's key


def machine_of(broker: Broker, transactional_id: str | None) -> TransactionMachine:
    """The machine of the id. Raises the error for the client if this broker does not coordinate it."""
    if not transactional_id or len(transactional_id.encode()) > TRANSACTIONAL_ID_MAX:
        raise InvalidRequest("a transactional id has 1 to 32767 bytes")
    return broker.coordinators.transactions.machine_of(transactional_id)


def answered(response: Future[Any], convert: Callable[[Any], Fields]) -> Future[Fields]:
    """The fields of a response that is available later, or its error code."""
    fields: Future[Fields] = Future()
    response.then(lambda value: fields.complete(_convert(value, convert)))
    return fields


def _convert(value: Any, convert: Callable[[Any], Fields]) -> Fields:
    if isinstance(value, TidelogError):
        return {"error_code": value.code}
    return {"error_code": ErrorCode.NONE, **convert(value)}


def refused_transaction(transactional_id: str, code: ErrorCode) -> Fields:
    """The row of a transaction that is not described."""
    return {
        "error_code": code,
        "transactional_id": transactional_id,
        "transaction_state": "",
        "transaction_start_time": 0,
    }


def for_old_clients(code: ErrorCode, *, fenced_from: int, version: int) -> ErrorCode:
    """Replace PRODUCER_FENCED, which clients before version ``fenced_from`` do not know."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
