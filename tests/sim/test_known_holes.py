"""Stories that break a promise today. Each becomes a golden story when its hole is closed."""

import pytest

from tidelog.sim.checkers import Violation
from tidelog.sim.stories import deciding_again, moved_leaders, replaced_brokers
from tidelog.sim.telling import StoryFailed


@pytest.mark.xfail(
    strict=True,
    raises=StoryFailed,
    reason="isr, unclean elections: a leader that is cut off with all of its followers goes on, and does not "
    "count a replacement with its own id as a possible successor. The controllers do not remember that a "
    "replica is on a new disk, so they cannot leave it out of unclean elections, as replicas that are added",
)
def test_is_elected_while_the_first_one_is_followed() -> None:
    replaced_brokers.is_elected_while_the_first_one_is_followed()


@pytest.mark.xfail(
    strict=True,
    raises=StoryFailed,
    reason="isr: an operator takes the leadership from a broker that has just been cut off. While its "
    "session lasts it tells consumers an earlier end than its successor has told others (an older committed "
    "offset, where it is a coordinator). It would have to ask its followers for each of these answers",
)
def test_end_of_a_moved_log() -> None:
    moved_leaders.end_of_a_moved_log()


@pytest.mark.xfail(
    strict=True,
    raises=(StoryFailed, Violation),
    reason="isr, min.insync.replicas=1: a leader alone in its set counts the controllers that it knows. One "
    "that was added after it was cut off, less than a session ago, may make the others a majority. It would "
    "have to know that its list was still right when it saw the others end",
)
def test_controller_that_it_has_not_heard_of() -> None:
    deciding_again.controller_that_it_has_not_heard_of()
