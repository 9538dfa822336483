"""Rules about deletions that every later leader has to know of: each mutation takes one away, and the story
that tells why it is there must notice.
"""

from collections.abc import Callable

import pytest

from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.deletions import CopiedDeletions, Deletions
from tidelog.replication.attachments.restorer import Restoring
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.policies.policy import Policy
from tidelog.replication.policies.primary_backup import PrimaryBackupPolicy
from tidelog.replication.progress import Progress
from tidelog.replication.view import View
from tidelog.replication.watermark import Watermark
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import begun_anew, promoted_backups
from tidelog.sim.stories import deleted_records as stories
from tidelog.sim.story import Story
from tidelog.sim.telling import StoryFailed


def answer_deletions_without_eligible_replicas(patch: pytest.MonkeyPatch) -> None:
    """A deletion waits for members only."""
    patch.setattr(Deletions, "_able", lambda self: self._driver.replica.maximal_in_sync)


def wait_for_all_replicas(patch: pytest.MonkeyPatch) -> None:
    """A deletion waits also for replicas that cannot lead."""
    patch.setattr(Deletions, "_able", lambda self: frozenset(self._driver.replica.replicas))


def join_without_having_deleted(patch: pytest.MonkeyPatch) -> None:
    """A follower that holds everything joins, whatever it holds besides."""
    patch.setattr(Progress, "has_deleted", lambda self, leader_start_offset: True)


def take_backups_for_told(patch: pytest.MonkeyPatch) -> None:
    """Where a primary pauses, a backup that has not deleted may lead in the next mode."""
    patch.setattr(PrimaryBackupPolicy, "holders_of_sealed", Policy.holders_of_sealed)


def keep_a_later_start_to_itself(patch: pytest.MonkeyPatch) -> None:
    """Followers of a quiet partition hear of a later start with the next record."""
    patch.setattr(ReplicaDriver, "begins_later", lambda self: None)


def copy_records_only(patch: pytest.MonkeyPatch) -> None:
    """A backup that is promoted asks where the other logs end, and not where they begin."""
    patch.setattr(Restoring, "_delete", lambda self, starts: None)


def answer_deletions_without_backups(patch: pytest.MonkeyPatch) -> None:
    """A deletion waits only for backups that are heard of."""
    patch.setattr(CopiedDeletions, "low_watermark", Deletions.low_watermark)


def count_backups_that_have_not_deleted(patch: pytest.MonkeyPatch) -> None:
    """More copies are there when enough backups hold all records, whatever they hold besides."""
    original = PrimaryBackupPolicy.has_copies_of

    def has_copies_of(self: PrimaryBackupPolicy, view: View, end_offset: int, start_offset: int) -> bool:
        return original(self, view, end_offset, 0)

    patch.setattr(PrimaryBackupPolicy, "has_copies_of", has_copies_of)


def read_less_than_the_start(patch: pytest.MonkeyPatch) -> None:
    """A log that begins anew counts as synced up to where it was opened."""

    def readable_end_offset(self: Watermark, start_offset: int) -> int:
        return self.offset if self.log_confirmed else min(self.offset, self._synced_before)

    patch.setattr(Watermark, "readable_end_offset", readable_end_offset)


def delete_from_sealed_logs(patch: pytest.MonkeyPatch) -> None:
    """A primary that has paused for a change of the mode deletes records."""
    patch.setattr(CopiedDeletions, "delete_before", Deletions.delete_before)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (answer_deletions_without_eligible_replicas, stories.eligible_replica_has_not_deleted),
        (copy_records_only, promoted_backups.backup_is_promoted_while_it_is_down),
        (answer_deletions_without_backups, promoted_backups.deletion_without_enough_copies),
        (wait_for_all_replicas, stories.deletion_without_a_replica_that_cannot_lead),
        (join_without_having_deleted, stories.follower_deletes_before_it_joins),
        (take_backups_for_told, stories.backup_deletes_before_another_mode),
        (keep_a_later_start_to_itself, stories.deletion_of_expired_records),
        (delete_from_sealed_logs, stories.primary_that_is_no_leader_any_more),
        (count_backups_that_have_not_deleted, promoted_backups.more_copies_after_a_deletion),
        (count_backups_that_have_not_deleted, promoted_backups.move_after_a_deletion),
        (read_less_than_the_start, begun_anew.readers_of_a_new_beginning),
    ],
)
def test_a_story_notices(
    mutate: Callable[[pytest.MonkeyPatch], None],
    told: Callable[[], Story],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation, InvariantViolation)):
        told()
