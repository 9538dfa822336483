"""The states of a transaction and their transitions: a table, which alone decides."""

from collections.abc import Mapping
from enum import IntEnum


class State(IntEnum):
    """Numbers as in the log."""

    EMPTY = 0  # The producer is known; nothing was written yet.
    ONGOING = 1  # Partitions were added.
    PREPARE_COMMIT = 2  # The decision is in the log; markers are being sent.
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4  # All markers are written.
    COMPLETE_ABORT = 5
    DEAD = 6  # Its id expires; never in the log.
    PREPARE_EPOCH_FENCE = 7  # A newer producer, or the clock, aborts it; never in the log.

    @property
    def label(self) -> str:
        """As Kafka's tools write it."""
        return self.name.title().replace("_", "")


_AT_REST = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

BEFORE: Mapping[State, frozenset[State]] = {
    State.EMPTY: _AT_REST,
    State.ONGOING: _AT_REST | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    # A client that raises its epoch with every transaction may abort one without writes.
    State.PREPARE_ABORT: _AT_REST | {State.ONGOING, State.PREPARE_EPOCH_FENCE},
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
    State.DEAD: _AT_REST,
    State.PREPARE_EPOCH_FENCE: frozenset({State.ONGOING}),
}
"""The predecessors of each state."""

PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
AT_REST = _AT_REST
BY_LABEL = {state.label: state for state in State}
