"""The stories of retention can fail: the mutation takes the rule out, and the story notices."""

import pytest

from tidelog.log.scan import BrokenChain
from tidelog.log.segment import Segment
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import retention as stories
from tidelog.sim.telling import StoryFailed


def test_age_by_the_file_of_a_damaged_segment_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def age_reference_ms(self: Segment, ahead_max_ms: int) -> int:
        try:
            return self.indexes.load_max_timestamp()
        except BrokenChain:
            return self._modified_ms()

    monkeypatch.setattr(Segment, "age_reference_ms", age_reference_ms)
    with pytest.raises((StoryFailed, Violation)):
        stories.isr_age_of_damaged_segment()
