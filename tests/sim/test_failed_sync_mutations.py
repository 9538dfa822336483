"""Each mutation takes out a rule about failed syncs, and a story notices."""

from collections.abc import Callable

import pytest

from tidelog.log.log import Log
from tidelog.sim.checkers.violation import Violation
from tidelog.sim.cluster import BrokerMachine
from tidelog.sim.stories import failed_syncs as stories
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def take_each_failure_for_a_refused_write(patch: pytest.MonkeyPatch) -> None:
    """What was written is thought to be there as long as the machine is on."""
    patch.setattr(Log, "sync_failed", False)


def forget_the_failure(patch: pytest.MonkeyPatch) -> None:
    """The next process does not hear of it."""
    patch.setattr(BrokerMachine, "_doubt", lambda machine: None)


@pytest.mark.parametrize("mutate", [take_each_failure_for_a_refused_write, forget_the_failure])
@pytest.mark.parametrize("told", stories.STORIES)
def test_is_noticed(mutate: Patch, told: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises((Violation, StoryFailed)):
        told()
