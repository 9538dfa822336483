"""A leader takes another in-sync set and another minimum of copies one after the other: a story notices."""

from collections.abc import Callable

import pytest

from tidelog.broker.partitions.table import PartitionTable
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import lowered_minimum
from tidelog.sim.stories.lowered_minimum import MinimumStory


@pytest.mark.parametrize(
    ("limits", "story"),
    [
        (
            lambda self, mine, config, partition: self._limits(config, partition),
            lowered_minimum.lower_minimum_and_smaller_set,
        ),
        (
            lambda self, mine, config, partition: mine.replica.limits,
            lowered_minimum.smaller_set_and_higher_minimum,
        ),
    ],
    ids=["the new minimum first", "the new set first"],
)
def test_one_of_both_is_noticed(
    monkeypatch: pytest.MonkeyPatch, limits: object, story: Callable[[], MinimumStory]
) -> None:
    monkeypatch.setattr(PartitionTable, "_safe_limits", limits)
    with pytest.raises(Violation, match="node 1 takes all before 2 for committed, but node 3"):
        story()
