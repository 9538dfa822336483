"""A primary that lost confirmed records without knowing goes on as if it had them: a story notices."""

from collections.abc import Callable

import pytest

from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.stand_in import Backup
from tidelog.replication.hosted import Hosted
from tidelog.replication.replica import Role
from tidelog.sim.stories import deceived
from tidelog.sim.telling import StoryFailed
from tidelog.types import NO_BROKER

Patch = Callable[[pytest.MonkeyPatch], None]


def count_what_was_written_since(patch: pytest.MonkeyPatch) -> None:
    """A primary that has as many records as were confirmed has those records."""
    original = Backup.is_behind

    def is_behind(self: Backup, last_epoch: int) -> bool:
        hosted = self._hosted
        has_written = hosted.log.end_offset > hosted.replica.epoch_start_offset
        return not has_written and original(self, last_epoch)

    patch.setattr(Backup, "is_behind", is_behind)


def keep_what_nobody_confirmed(patch: pytest.MonkeyPatch) -> None:
    """A primary that steps back keeps its tail, and its history differs from its backup's for ever."""

    def step_back(self: Hosted, high_watermark: int) -> None:
        replica = self.replica
        if replica.role is Role.LEADER:
            self.follow(replica.epoch, NO_BROKER, replica.replicas, replica.partition_epoch)
        self.damaged(self.log.end_offset, "a backup has more")

    patch.setattr(Hosted, "step_back", step_back)


@pytest.mark.parametrize("mutation", [count_what_was_written_since, keep_what_nobody_confirmed])
def test_mutation_is_noticed(mutation: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises((StoryFailed, InvariantViolation)):
        deceived.unconfirmed_tail()
