"""One transactional id and its current transaction. Immutable, so a refused change has no effect."""

from typing import NamedTuple

from tidelog.invariant import invariant
from tidelog.transactions.states import BEFORE, TransactionState
from tidelog.types import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
NO_VERSION = 0
EPOCH_MAX = 32_767  # Only in markers. Clients get at most one less, so that every client can be fenced.

EPOCH_BUMP_VERSION = 2
"""Since this transaction version each transaction has its own epoch (KIP-890)."""


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int  # The producer's; NO_EPOCH until the producer is in the log.
    timeout_ms: int
    state: TransactionState
    # Partitions that may have been written to; empty between transactions.
    partitions: frozenset[TopicPartition]
    started_ms: int  # When the first partition was added; NO_TIME before that.
    updated_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID  # Used after this transaction, if the epochs are used up.
    last_epoch: int = NO_EPOCH  # A retry may still use it. Not in the log, as in Kafka.
    client_version: int = 0  # The client's transaction version; 0 also if it was fenced.

    @property
    def epochs_exhausted(self) -> bool:
        return is_exhausted(self.epoch)

    def to(self, state: TransactionState, **changes: object) -> "Transaction":
        """The transaction in another state. The transition must be in the table."""
        invariant(self.state in BEFORE[state], "no such transition", self.state, state)
        return self._replace(state=state, previous_producer_id=self.producer_id, **changes)  # type: ignore[arg-type]


def last_epoch_of(state: TransactionState, epoch: int, client_version: int) -> int:
    """The epoch that a retry of EndTxn may use, derived from the fields of the log record."""
    ended = state not in (TransactionState.EMPTY, TransactionState.ONGOING)
    return epoch - 1 if ended and client_version >= EPOCH_BUMP_VERSION and epoch > 0 else NO_EPOCH


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1
