"""A transactional id in memory: its transaction, its pending change, and the requests that wait for it."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.transactions.effects import Effects, Now, Waiter
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction


class Parked(NamedTuple):
    """A request that is retried when the id is free."""

    until_ms: int  # Then it is refused.
    waiter: Waiter
    retry: Callable[[Now], Effects]


class TransactionEntry:
    __slots__ = (
        "completion_planned", "deadline_ms", "parked", "pending", "transaction", "unwritten", "watched",
    )  # fmt: skip

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.pending: TransactionState | None = None  # What is being written.
        self.parked: list[Parked] = []
        # By the monotonic clock: when the transaction times out. Valid only while one is open.
        self.deadline_ms = 0
        self.watched = False  # Whether a timer will check the deadline.
        self.unwritten = False  # Whether the log does not show yet that the transaction is complete.
        self.completion_planned = False  # Whether a timer will complete it.

    @property
    def busy(self) -> bool:
        return self.pending is not None
