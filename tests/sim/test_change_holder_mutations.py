"""Rules about who holds everything after a change of the mode: each mutation takes one away, and the story
that tells why it is there must notice.
"""

from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from tidelog.config.modes import ISR, PRIMARY_BACKUP
from tidelog.controller import leader_assignment
from tidelog.controller.image import PartitionImage
from tidelog.controller.successions import mode_changes, promising
from tidelog.controller.successions.steps import Rules
from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.replica import Replica
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import change_holders as stories
from tidelog.sim.stories.changes import ChangeStory
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def hand_over_unsynced(patch: pytest.MonkeyPatch) -> None:
    """A leader hands its log over as soon as others have synced it."""
    original = Replica._holders
    patch.setattr(Replica, "_holders", lambda self: original(cast(Replica, _Synced(self))))


class _Synced:
    """A replica that has synced everything, as it says."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    @property
    def durable_end_offset(self) -> int:
        return self._replica.log.end_offset

    def __getattr__(self, name: str) -> object:
        return getattr(self._replica, name)


def drop_fenced_holders(patch: pytest.MonkeyPatch) -> None:
    """A holder of the log that is fenced counts as one that lacks records."""
    patch.setattr(leader_assignment, "_is_only_fenced", lambda *_: False)


def drop_eligible_replicas(patch: pytest.MonkeyPatch) -> None:
    """A change to primary-backup goes by the in-sync set alone."""
    step = mode_changes.STEPS[ISR, PRIMARY_BACKUP]
    patch.setitem(mode_changes.STEPS, (ISR, PRIMARY_BACKUP), step._replace(keeps_eligible=False))


def lead_with_deleted_records(patch: pytest.MonkeyPatch) -> None:
    """A voter that was behind leads with the log start that it has."""
    patch.setattr(Elected, "_delete_what_was_deleted", lambda self: None)


def count_members_only(patch: pytest.MonkeyPatch) -> None:
    """A record has as many copies as there are members now."""
    original = promising._copies

    def copies(before: PartitionImage, old: Rules, after: PartitionImage, new: Rules) -> int:
        return original(msgspec.structs.replace(before, eligible=()), old, after, new)

    patch.setattr(promising, "_copies", copies)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (hand_over_unsynced, stories.leader_has_not_synced),
        (drop_fenced_holders, stories.fenced_holders_are_eligible),
        (drop_fenced_holders, stories.fenced_backup_is_eligible),
        (drop_eligible_replicas, stories.eligible_replica_has_all_for_the_primary),
        (lead_with_deleted_records, stories.late_voter_deletes_before_it_leads),
        (count_members_only, stories.eligible_replica_has_all_for_the_primary),
    ],
)
def test_a_story_notices(
    mutate: Patch, told: Callable[[], ChangeStory], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation, InvariantViolation)):
        told()
