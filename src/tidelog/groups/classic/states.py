"""The states of a classic group and their transitions."""

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    """Values are Kafka's names, which its tools print."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Mapping[tuple[State, State], str] = {
    (State.EMPTY, State.PREPARING): "a first member joins",
    (State.EMPTY, State.DEAD): "the group is deleted, or its last offset has expired",
    (State.PREPARING, State.COMPLETING): "all members have joined again, or their time is up",
    (State.PREPARING, State.EMPTY): "the last member is gone",
    (State.COMPLETING, State.STABLE): "the leader's assignment is committed in the log",
    (State.COMPLETING, State.PREPARING): "a member joins, leaves, dies or does not sync; "
    "or the assignment cannot be written",
    (State.STABLE, State.PREPARING): "a member joins, leaves, dies or wants another protocol; "
    "or the leader joins again",
}
"""From, to, and what causes the transition. There are no others."""
