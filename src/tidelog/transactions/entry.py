"""A transactional id in memory: its transaction, its pending change, and the requests that wait for it."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.transactions.effects import Effects, Now, Waiter
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction


class Parked(NamedTuple):
    """A request that is retried when its transactional id is no longer busy."""

    until_ms: int  # The request is refused if it still has to wait at this time.
    waiter: Waiter
    retry: Callable[[Now], Effects]


class TransactionEntry:
    __slots__ = (
        "completion_planned", "deadline_ms", "parked", "pending", "transaction", "unwritten", "watched",
    )  # fmt: skip

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.pending: TransactionState | None = None  # The state that is being written.
        self.parked: list[Parked] = []
        # When the transaction times out (monotonic clock). Valid only while a transaction is open.
        self.deadline_ms = 0
        self.watched = False  # Whether a timer will check the deadline.
        self.unwritten = False  # Whether the completion of the transaction is not in the log yet.
        self.completion_planned = False  # Whether a timer will write the completion.

    @property
    def busy(self) -> bool:
        return self.pending is not None
