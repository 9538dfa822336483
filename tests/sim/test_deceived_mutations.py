"""A primary that lost confirmed records without knowing goes on as if it had them: a story notices."""

from collections.abc import Callable

import pytest

from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.stand_in import Backup
from tidelog.replication.damage import Damage
from tidelog.replication.replica import Role
from tidelog.sim.stories import deceived
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def count_what_was_written_since(patch: pytest.MonkeyPatch) -> None:
    """A primary that has as many records as were confirmed has those records."""
    original = Backup.is_behind

    def is_behind(self: Backup, follower: int, last_epoch: int) -> bool:
        driver = self._driver
        has_written = driver.log.end_offset > driver.replica.epoch_start_offset
        return not has_written and original(self, follower, last_epoch)

    patch.setattr(Backup, "is_behind", is_behind)


def keep_what_nobody_confirmed(patch: pytest.MonkeyPatch) -> None:
    """A primary that steps back keeps its tail, and its history differs from its backup's for ever."""

    def step_back(self: Damage, high_watermark: int) -> None:
        if self._driver.replica.role is Role.LEADER:
            self._follow_none()
        self.found(self._driver.log.end_offset, "a backup has more")

    patch.setattr(Damage, "step_back", step_back)


@pytest.mark.parametrize("mutation", [count_what_was_written_since, keep_what_nobody_confirmed])
def test_mutation_is_noticed(mutation: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises((StoryFailed, InvariantViolation)):
        deceived.unconfirmed_tail()
