"""Leaders that an operator has replaced while they were cut off: without their rule, a story notices."""

from collections.abc import Callable

import pytest

from tidelog.replication.attachments.successors import Successors
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import moved_leaders as stories
from tidelog.sim.telling import StoryFailed, Telling


@pytest.mark.parametrize("told", stories.STORIES, ids=lambda each: each.__name__)
def test_a_story_notices_that_a_session_is_enough(
    told: Callable[[], Telling], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader with a session does not ask its followers."""
    monkeypatch.setattr(Successors, "are_members", False)
    with pytest.raises((StoryFailed, Violation)):
        told()
