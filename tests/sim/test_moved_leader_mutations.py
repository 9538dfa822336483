"""Leaders that an operator has replaced while they were cut off: without their rule, a story notices."""

from collections.abc import Callable

import pytest

from tidelog.broker.node.node import Node
from tidelog.replication.attachments.successors import NamedByOperator
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import moved_leaders as stories
from tidelog.sim.telling import StoryFailed, Telling


@pytest.mark.parametrize("told", stories.STORIES, ids=lambda each: each.__name__)
def test_a_story_notices_that_a_session_is_enough(
    told: Callable[[], Telling], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader with a session does not ask its followers."""
    monkeypatch.setattr(NamedByOperator, "are_members", False)
    with pytest.raises((StoryFailed, Violation)):
        told()


def test_a_story_notices_that_backups_are_no_successors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A primary without a session tells where the log ends, whatever its copies are."""
    monkeypatch.setattr(NamedByOperator, "may_be", False)
    with pytest.raises((StoryFailed, Violation)):
        stories.backup_is_promoted()


def test_a_story_notices_that_heartbeats_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that gets no metadata any more relies on its session."""
    monkeypatch.setattr(Node, "_hears_decisions", lambda self: True)
    with pytest.raises((StoryFailed, Violation)):
        stories.leader_gets_no_metadata()
