"""Deletions that a disk refuses to record: each mutation takes a rule away, and the story that tells why it
is there must notice.
"""

from collections.abc import Callable

import pytest

from tidelog.log.log import Log
from tidelog.replication import fetching
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.messages import FetchItem
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import unrecorded_deletions as stories
from tidelog.sim.story import Story
from tidelog.sim.telling import StoryFailed


def answer_deletions_that_are_not_recorded(patch: pytest.MonkeyPatch) -> None:
    """The leader counts its own log start before it is recorded."""
    patch.setattr(Log, "kept_start_offset", property(lambda self: self.start_offset))


def tell_a_start_that_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    """A follower tells its leader its log start before it is recorded."""
    item = fetching._item

    def with_any_start(driver: ReplicaDriver) -> FetchItem:
        return item(driver)._replace(log_start_offset=driver.log.start_offset)

    patch.setattr(fetching, "_item", with_any_start)


def never_record_it_later(patch: pytest.MonkeyPatch) -> None:
    """What the disk has refused once is not recorded any more."""
    patch.setattr(Log, "keep_start", lambda self: True)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (answer_deletions_that_are_not_recorded, stories.leader_cannot_record_it),
        (answer_deletions_that_are_not_recorded, stories.leader_is_killed_before_it_is_recorded),
        (tell_a_start_that_is_not_recorded, stories.follower_cannot_record_it),
        (never_record_it_later, stories.leader_cannot_record_it),
        (never_record_it_later, stories.follower_cannot_record_it),
        (never_record_it_later, stories.promoted_backup_cannot_record_it),
    ],
)
def test_a_story_notices(
    mutate: Callable[[pytest.MonkeyPatch], None],
    told: Callable[[], Story],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation)):
        told()
