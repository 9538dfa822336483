"""Ends everything that is open under a prefix of transactional ids.

Owns which transactions count as open: also those that a task could open at any moment, because it has the
name already (InitProducerId) and has not written yet. Fencing refuses it from then on.
"""

from collections.abc import Mapping

from tidelog.spark.writing.messages import ProducerId
from tidelog.spark.writing.transaction_messages import TransactionState
from tidelog.spark.writing.transactions import EMPTY, FENCE_TIMEOUT_MS, ONGOING, Transactions

Found = Mapping[str, TransactionState]


def open_transactions(transactions: Transactions, prefix: str) -> Found:
    names = [one.name for one in transactions.listed(prefix, EMPTY, ONGOING)]
    return {name: one for name, one in transactions.describe(names).items() if _is_open(one)}


def end_all(transactions: Transactions, found: Found, decided: Mapping[str, ProducerId]) -> None:
    """Commit those that are decided to be committed, and fence the others."""
    others = {}
    for name, one in found.items():
        if one.state == ONGOING and decided.get(name) == one.producer:
            transactions.commit(name, one.producer)
        else:
            others[name] = one
    for waits in (False, True):  # so that they are aborted at the same time
        for name, one in others.items():
            transactions.fence(name, one.producer, waits=waits)


def _is_open(one: TransactionState) -> bool:
    if one.error:
        return False
    return one.state == ONGOING or (one.state == EMPTY and one.timeout_ms != FENCE_TIMEOUT_MS)
