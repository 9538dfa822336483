"""A transactional id in memory: its transaction, its pending change, and the requests that wait for it."""

from collections.abc import Set
from typing import Any, NamedTuple

from tidelog.transactions.agenda import TimerKind
from tidelog.transactions.effects import Waiter
from tidelog.transactions.rules import EndRequest, ProducerIdAndEpoch
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction
from tidelog.types import TopicPartition


class Parked(NamedTuple):
    """A request to add partitions, which is retried when its transactional id is no longer busy."""

    until_ms: int  # The request is refused if it still has to wait at this time.
    waiter: Waiter
    producer: ProducerIdAndEpoch
    partitions: Set[TopicPartition]
    client_version: int


class StartOfProducer(NamedTuple):
    """InitProducerId, while it waits for a producer id."""

    expected: ProducerIdAndEpoch | None
    timeout_ms: int
    waiter: Waiter


class EndOfTransaction(NamedTuple):
    """EndTxn, while it waits for the producer id of the next transaction."""

    request: EndRequest
    waiter: Waiter


class StateWrite(NamedTuple):
    """The next state of an id, which is being written, and what follows it."""

    new: Transaction
    waiter: Waiter | None = None  # It gets the response, or the error.
    response: Any = None
    retry: TimerKind | None = None  # The timer that is set if the write fails,
    retry_ms: int = 0  # and its time.


class TransactionEntry:
    __slots__ = (
        "change", "completion_planned", "deadline_ms", "parked", "pending", "timer_ms", "transaction",
        "unwritten",
    )  # fmt: skip

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.pending: TransactionState | None = None  # The state that is being written.
        # What follows when it is written, or when the producer id is there. There is one change at a time.
        self.change: StateWrite | StartOfProducer | EndOfTransaction | None = None
        self.parked: list[Parked] = []
        # When the transaction times out (monotonic clock). Valid only while a transaction is open.
        self.deadline_ms = 0
        # When the earliest timer checks the deadline; later ones do nothing.
        self.timer_ms: int | None = None
        self.unwritten = False  # Whether the completion of the transaction is not in the log yet.
        self.completion_planned = False  # Whether a timer will write the completion.

    @property
    def busy(self) -> bool:
        return self.pending is not None
