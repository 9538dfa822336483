"""Sessions that brokers had when the active controller was replaced: without one of the rules, a story
notices.
"""

import pytest

from tidelog.broker.node.sightings import Sightings
from tidelog.controller.controller import Controller
from tidelog.replication.election import Election
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import unaware_leaders as stories
from tidelog.sim.telling import StoryFailed


def test_a_story_notices_a_shorter_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new controller gives brokers only the time that closed connections get, and new processes of other
    controllers count at once.
    """
    activate = Controller.activate

    def hastily(self: Controller, now_ms: int) -> None:
        activate(self, now_ms - self._timing.session_ms + self._timing.grace_ms)

    monkeypatch.setattr(Controller, "activate", hastily)
    monkeypatch.setattr(Election, "voter_began", lambda self, voter, now_ms: None)
    with pytest.raises((StoryFailed, Violation)):
        stories.active_controller_that_is_replaced()


def test_a_story_notices_that_the_dead_stay_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker whose process was seen to end has no session, also after it has registered again."""
    monkeypatch.setattr(Sightings, "registered", lambda self, peer: None)
    with pytest.raises((StoryFailed, Violation)):
        stories.earlier_process_had_ended()
