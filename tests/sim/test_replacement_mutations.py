"""A replacement of a broker whose session lasts: without the rule, a story notices."""

import pytest

from tidelog.controller import controller
from tidelog.controller.controller import Controller
from tidelog.controller.effects import Decided, Register
from tidelog.controller.image import ClusterImage
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import replaced_brokers as stories
from tidelog.sim.telling import StoryFailed


def test_a_story_notices_that_a_replacement_ends_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    register = Controller._register

    def at_once(self: Controller, decision: Register, image: ClusterImage) -> Decided:
        self._sessions.pop(decision.ask.broker_id, None)
        return register(self, decision, image)

    monkeypatch.setattr(controller, "_DECIDE", {**controller._DECIDE, Register: at_once})
    with pytest.raises((StoryFailed, Violation)):
        stories.registers_while_the_first_one_leads()
