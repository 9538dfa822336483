"""Readers when an operator has chosen a log: each mutation takes one rule out, and a story notices."""

from collections.abc import Callable

import pytest

from tidelog.replication.attachments.stand_in import AnyVoter
from tidelog.sim.checkers import Violation
from tidelog.sim.checkers.history import PartitionHistory
from tidelog.sim.stories import chosen_logs as stories
from tidelog.sim.telling import StoryFailed, Telling

Patch = Callable[[pytest.MonkeyPatch], None]


def serve_what_was_known_before(patch: pytest.MonkeyPatch) -> None:
    """What was known to be committed once is served, whatever an operator has decided since."""
    patch.setattr(AnyVoter, "is_outdated", False)


def forget_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Only a leader that this process has heard confirms a log."""

    def is_outdated(self: AnyVoter) -> bool:
        return self._driver.replica.watermark.agreed[0] < self._driver.unclean_epoch

    patch.setattr(AnyVoter, "is_outdated", property(is_outdated))


def everybody_has_heard(patch: pytest.MonkeyPatch) -> None:
    """What a stand-in serves counts as committed, though it cannot know of the decision."""
    patch.setattr(PartitionHistory, "is_unaware", lambda self, follower_epoch: False)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (serve_what_was_known_before, stories.stand_in_has_heard),
        (forget_at_a_restart, stories.stand_in_has_heard),
        (everybody_has_heard, stories.stand_in_has_not_heard),
    ],
)
def test_a_story_notices(mutate: Patch, told: Callable[[], Telling], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation)):
        told()
