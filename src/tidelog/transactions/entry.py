"""A transactional id in memory: its transaction, what is being written of it, and who waits for that."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.transactions.effects import Effects, Now, Waiter
from tidelog.transactions.states import State
from tidelog.transactions.transaction import Transaction


class Parked(NamedTuple):
    """A request that tries again when the id is free."""

    until_ms: int  # Then it is refused.
    waiter: Waiter
    retry: Callable[[Now], Effects]


class Entry:
    __slots__ = (
        "completion_planned", "deadline_ms", "parked", "pending", "transaction", "unwritten", "watched",
    )  # fmt: skip

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.pending: State | None = None  # What is being written.
        self.parked: list[Parked] = []
        # By the clock that only goes forward: when the transaction has taken too long. Means something only
        # while one is open.
        self.deadline_ms = 0
        self.watched = False  # Whether somebody looks at the deadline in time.
        self.unwritten = False  # Whether the log does not say yet that the transaction is complete.
        self.completion_planned = False  # Whether somebody will see to that.

    @property
    def busy(self) -> bool:
        return self.pending is not None
