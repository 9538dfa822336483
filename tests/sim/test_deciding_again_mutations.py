"""Controllers that were too few, and can decide again: each mutation takes one rule out, and a story
notices.
"""

from collections.abc import Callable

import pytest

from tidelog.broker.metadata.quorum import MetadataQuorum
from tidelog.broker.node import lifecycle
from tidelog.broker.node.sightings import Sightings
from tidelog.controller.controller import Controller
from tidelog.controller.effects import Effects
from tidelog.replication.election import Election
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import deciding_again as stories
from tidelog.sim.telling import StoryFailed, Telling

Patch = Callable[[pytest.MonkeyPatch], None]


def only_the_known_controllers_count(patch: pytest.MonkeyPatch) -> None:
    """The others cannot add or remove one of them."""

    def count(self: Sightings) -> None:
        controllers = self._controllers()
        if len(self._not_ended(controllers) - {self._me}) >= controllers.majority:
            self._undecided_since_ms = None
        elif self._undecided_since_ms is None:
            self._undecided_since_ms = self._services.uptime_ms()

    patch.setattr(Sightings, "_count_deciders", count)


def sessions_end_by_the_clock_alone(patch: pytest.MonkeyPatch) -> None:
    """Whether or not a majority of the controllers is there."""
    tick = Controller.tick

    def look(self: Controller, now_ms: int, followed_ms: int) -> Effects:
        return tick(self, now_ms, now_ms)

    patch.setattr(Controller, "tick", look)


def new_processes_count_at_once(patch: pytest.MonkeyPatch) -> None:
    """A controller that has just started stands for the time before as well."""
    patch.setattr(Election, "voter_began", lambda self, voter, now_ms: None)


def own_votes_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """A broker forgets that it is one of the controllers itself."""
    patch.setattr(MetadataQuorum, "may_have_ended_session", lambda self, broker_id: False)


def all_clocks_are_equally_fast(patch: pytest.MonkeyPatch) -> None:
    """A broker relies on its session for as long as the controllers do."""
    patch.setattr(lifecycle, "relied_on_ms", lambda session_ms: session_ms)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (only_the_known_controllers_count, stories.one_controller_is_removed),
        (sessions_end_by_the_clock_alone, stories.fenced_by_too_few_controllers),
        (new_processes_count_at_once, stories.controller_restarts_at_once),
        (own_votes_do_not_count, stories.decided_with_its_own_vote),
        (all_clocks_are_equally_fast, stories.clock_of_the_leader_is_slow),
    ],
)
def test_a_story_notices(mutate: Patch, told: Callable[[], Telling], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation)):
        told()
