"""Two damaged replicas: what counts as lost when they drop their records, and what does not."""

from collections.abc import Set as AbstractSet

import pytest

from tidelog.replication.attachments import restorer
from tidelog.replication.attachments.restorer import Mandate, Restoring
from tidelog.replication.messages import TailGot
from tidelog.sim.checkers import Violation
from tidelog.sim.checkers.damage import DamageChecker
from tidelog.sim.checkers.promises.primary_backup import PrimaryBackupPromise
from tidelog.sim.checkers.promises.promise import Promise
from tidelog.sim.stories import two_damaged

BACKUP = 2  # B
LACKS_THE_LAST = "all before 11 is confirmed, and node 1, which is to lead, holds 10"


def test_a_primary_that_does_not_hear_the_backup_with_the_record_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The primary has dropped its records. The backup is damaged, too, but has not dropped anything: the
    record is not lost.
    """
    take = Restoring.got

    def got(self: Restoring, got: TailGot) -> None:
        if got.sender != BACKUP:
            take(self, got)

    def has_heard_enough(mandate: Mandate, copies: int, heard: AbstractSet[int]) -> bool:
        return bool(heard)

    monkeypatch.setattr(Restoring, "got", got)
    monkeypatch.setattr(restorer, "has_heard_enough", has_heard_enough)
    with pytest.raises(Violation, match=LACKS_THE_LAST):
        two_damaged.double_dropped_one_after_the_other()


def test_a_loss_is_judged_when_the_last_copy_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record was acknowledged after the damage, so no judgement of the damage covers it."""
    monkeypatch.setattr(PrimaryBackupPromise, "dropped", Promise.dropped)
    with pytest.raises(Violation, match=LACKS_THE_LAST):
        two_damaged.double_both_drop_a_record()


def test_a_log_that_begins_again_after_deleted_damage_has_dropped_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A log that does not reach back to the damage any more has not always lost it by the deletion alone."""
    monkeypatch.setattr(DamageChecker, "_leaves", lambda checker, disk, path: None)
    with pytest.raises(Violation, match=LACKS_THE_LAST):
        two_damaged.double_both_drop_deleted_records()


def test_a_copy_above_deleted_damage_is_not_lost_before_the_backup_drops_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the primary has found its damage, and restores nothing: the backup still has the record."""
    take = Restoring.got

    def got(self: Restoring, got: TailGot) -> None:
        if got.sender != BACKUP:
            take(self, got)

    def has_heard_enough(mandate: Mandate, copies: int, heard: AbstractSet[int]) -> bool:
        return bool(heard)

    monkeypatch.setattr(Restoring, "got", got)
    monkeypatch.setattr(restorer, "has_heard_enough", has_heard_enough)
    with pytest.raises(Violation, match=LACKS_THE_LAST):
        two_damaged.double_deleted_records_dropped_one_after_the_other()
