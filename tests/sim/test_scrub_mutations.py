"""Segments are read back as if their log did not change meanwhile: a story notices."""

import pytest

from tidelog.broker.housekeeping.scrubber import Pair
from tidelog.sim.stories import scrubbing
from tidelog.sim.telling import StoryFailed


def test_a_truncated_tail_is_taken_for_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_there(self: Pair) -> bool:
        """The segment is; what comes behind it now does not matter."""
        return not self.log.closed and self.segment in self.log.segments

    monkeypatch.setattr(Pair, "is_there", property(is_there))
    with pytest.raises(StoryFailed):
        scrubbing.isr_truncated_tail()
