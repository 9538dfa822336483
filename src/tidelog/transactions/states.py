"""The states of a transaction and the table of their transitions."""

from collections.abc import Mapping
from enum import IntEnum


class TransactionState(IntEnum):
    """The values are those in the log."""

    EMPTY = 0  # The producer has an id; no partitions were added yet.
    ONGOING = 1  # Partitions were added.
    PREPARE_COMMIT = 2  # The decision is in the log; markers are being sent.
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4  # All markers are written.
    COMPLETE_ABORT = 5
    DEAD = 6  # The transactional id expires; never in the log.
    PREPARE_EPOCH_FENCE = 7  # A newer producer or the timeout aborts it; never in the log.

    @property
    def label(self) -> str:
        """The name in Kafka's tools."""
        return self.name.title().replace("_", "")


_AT_REST = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)

BEFORE: Mapping[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _AT_REST,
    TransactionState.ONGOING: _AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # A client that raises its epoch with every transaction may abort one without writes.
    TransactionState.PREPARE_ABORT: _AT_REST
    | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _AT_REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""The predecessors of each state."""

PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
AT_REST = _AT_REST
BY_LABEL = {state.label: state for state in TransactionState}
