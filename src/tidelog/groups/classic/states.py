"""The states of a classic group and their transitions."""

from collections.abc import Mapping
from enum import Enum


class ClassicGroupState(Enum):
    """The values are the names in Kafka's tools."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Mapping[tuple[ClassicGroupState, ClassicGroupState], str] = {
    (ClassicGroupState.EMPTY, ClassicGroupState.PREPARING): "a first member joins",
    (ClassicGroupState.EMPTY, ClassicGroupState.DEAD): "the group is deleted, or its last offset has expired",
    (
        ClassicGroupState.PREPARING,
        ClassicGroupState.COMPLETING,
    ): "all members have joined again, or their time is up",
    (ClassicGroupState.PREPARING, ClassicGroupState.EMPTY): "the last member is gone",
    (
        ClassicGroupState.COMPLETING,
        ClassicGroupState.STABLE,
    ): "the leader's assignment is committed in the log",
    (
        ClassicGroupState.COMPLETING,
        ClassicGroupState.PREPARING,
    ): "a member joins, leaves, dies or does not sync; or the assignment cannot be written",
    (
        ClassicGroupState.STABLE,
        ClassicGroupState.PREPARING,
    ): "a member joins, leaves, dies or wants another protocol; or the leader joins again",
}
"""(From, to) and the cause of each transition. There are no others."""
