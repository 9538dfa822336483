"""One transactional id and its current transaction: immutable, so that a refused change leaves no trace."""

from typing import NamedTuple

from tidelog.invariant import invariant
from tidelog.transactions.states import BEFORE, TransactionState
from tidelog.types import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
NO_VERSION = 0
EPOCH_MAX = 32_767  # Used only in a marker: clients get at most one less, so that any can be fenced.

EPOCH_BUMP_VERSION = 2
"""Transaction version from which on each transaction has an epoch of its own (KIP-890)."""


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int  # Of the producer; -1 until it is known.
    timeout_ms: int
    state: TransactionState
    # Partitions that may have been written to; empty between transactions.
    partitions: frozenset[TopicPartition]
    started_ms: int  # When the first partition was added; -1 if none was.
    updated_ms: int
    previous_producer_id: int = NO_PRODUCER_ID  # The id before the one in use.
    next_producer_id: int = NO_PRODUCER_ID  # Used when this transaction is complete: the epochs are used up.
    last_epoch: int = NO_EPOCH  # A retry may still name it. Not in the log, as in Kafka.
    client_version: int = 0  # The client's transaction version; 0 also if it was fenced.

    @property
    def epochs_exhausted(self) -> bool:
        return is_exhausted(self.epoch)

    def to(self, state: TransactionState, **changes: object) -> "Transaction":
        """The same in another state."""
        invariant(self.state in BEFORE[state], "no such transition", self.state, state)
        return self._replace(state=state, previous_producer_id=self.producer_id, **changes)  # type: ignore[arg-type]


def last_epoch_of(state: TransactionState, epoch: int, client_version: int) -> int:
    """What the log says of the epoch that a retry may name: that of the transaction its client has ended."""
    ended = state not in (TransactionState.EMPTY, TransactionState.ONGOING)
    return epoch - 1 if ended and client_version >= EPOCH_BUMP_VERSION and epoch > 0 else NO_EPOCH


def is_exhausted(epoch: int) -> bool:
    return epoch >= EPOCH_MAX - 1
