"""Rules that matter when an operator is at work: each mutation breaks one, and a story or one of a bounded
number of seeds must notice.
"""

from collections.abc import Callable

import pytest
from noticing import notice

from tidelog.errors import InvariantViolation
from tidelog.replication.attachments.deletions import Deletions, MemberDeletions
from tidelog.replication.attachments.restorer import Restoring
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.replica import Replica
from tidelog.replication.votes import Tail
from tidelog.sim.checkers import Violation
from tidelog.sim.plan import PLAIN, ProducerPlan
from tidelog.sim.stories import operations as stories
from tidelog.sim.story import Story
from tidelog.sim.telling import StoryFailed

MAX_SEEDS = 30


def forget_the_epoch_of_expired_records(patch: pytest.MonkeyPatch) -> None:
    """A log whose records have all been deleted passes for one that never had any."""

    def last_epoch(self: Replica) -> int:
        end_offset = self.log.end_offset
        if end_offset > self.log.start_offset:
            return self.log.epochs.epoch_at(end_offset - 1)
        return self.base_epoch

    patch.setattr(Replica, "last_epoch", property(last_epoch))


def miss_expired_records(patch: pytest.MonkeyPatch) -> None:
    """A primary wants to copy what it had deleted itself."""
    forget_the_epoch_of_expired_records(patch)

    def is_ahead(self: Restoring, tail: Tail) -> bool:
        return tail > self._driver.tail

    patch.setattr(Restoring, "_is_ahead", is_ahead)


def keep_what_nobody_can_compare(patch: pytest.MonkeyPatch) -> None:
    """What lies before the leader's beginning passes for the same as what the leader had there."""
    patch.setattr(ReplicaDriver, "_lies_before", lambda self, leader_start_offset: False)


def answer_deletions_without_silent_members(patch: pytest.MonkeyPatch) -> None:
    """A member that is not heard of has not raised its log's start, and may lead next."""
    patch.setattr(MemberDeletions, "_is_awaited", Deletions._is_awaited)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (forget_the_epoch_of_expired_records, stories.expired_records_of_voters),
        (miss_expired_records, stories.expired_records_are_not_missed),
        (keep_what_nobody_can_compare, stories.deleted_beginning_hides_no_difference),
        (answer_deletions_without_silent_members, stories.deleted_records_stay_deleted),
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


def test_a_seed_notices_an_election_by_expired_records(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_the_epoch_of_expired_records(monkeypatch)
    wanted = {
        **PLAIN, "operations": ("retain", "delete records"), "faults": ("kill", "pause", "restart"),
        "pace_ms": (200, 1500), "producers": (ProducerPlan(0, -1, True),), "administrated": False,
    }  # fmt: skip
    notice("quorum", "forget_the_epoch_of_expired_records", MAX_SEEDS, wanted)
