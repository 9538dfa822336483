"""The stories of damage can fail: each mutation takes one rule out, and a story notices."""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.broker.node.failed_logs import FailedLogs
from tidelog.broker.quorum import voters as quorum_voters
from tidelog.broker.quorum.partitions import QuorumPartitions
from tidelog.errors import InvariantViolation
from tidelog.log import opening, segment_check
from tidelog.log.damage import DamageMark, Evidence
from tidelog.log.directory import DataDirectory
from tidelog.replication.ballot_file import BallotFile
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import tell
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def take_what_is_left(patch: pytest.MonkeyPatch) -> None:
    """As it was: a log that comes back shorter is a log that is shorter."""
    patch.setattr(opening.Opening, "_note_damage", lambda self, reason: None)


def trust_only_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    """What was not synced may be gone after any restart."""
    patch.setattr(Evidence, "end_offset_min", property(lambda self: self.recovery_point))
    original = opening.Opening.load

    def load(self: Any, *, evidence: Evidence, **rest: Any) -> Any:
        return original(self, evidence=evidence._replace(written_survives=False), **rest)

    patch.setattr(opening.Opening, "load", load)


def note_nothing(patch: pytest.MonkeyPatch) -> None:
    """The process knows it, and its disk does not."""

    def set_reason(self: DamageMark, reason: str) -> None:
        self.reason = reason

    patch.setattr(DamageMark, "set", set_reason)


def come_in_before_it_is_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FailedLogs, "have_told", True)


def vote_with_what_is_left(patch: pytest.MonkeyPatch) -> None:
    original = QuorumPartitions._found

    def found(self: QuorumPartitions, driver: Any, partition: Any) -> Any:
        driver.damage.is_cut, was_cut = False, driver.damage.is_cut
        try:
            return original(self, driver, partition)
        finally:
            driver.damage.is_cut = was_cut

    patch.setattr(QuorumPartitions, "_found", found)
    patch.setattr(QuorumPartitions, "note_drop", lambda self, driver, noted: noted())
    patch.setattr(quorum_voters, "forgot", lambda partition, voters, replica: False)


def count_a_damaged_controller(patch: pytest.MonkeyPatch) -> None:
    """It votes on with what is left of its log."""
    patch.setattr(BallotFile, "forget_who_voted", lambda self, new_id: self._directory_id)


def take_a_missing_directory_for_a_deleted_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        DataDirectory,
        "_speak_of_another",
        lambda self, name, topic_id, known: not known and name in self._on_disk,
    )


def take_every_cut_for_damage(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_check, "is_torn", lambda *args, **kwargs: False)


MUTATIONS: list[tuple[Patch, str]] = [
    (take_what_is_left, "damage_isr"),
    (take_what_is_left, "damage_isr_not_synced"),
    (take_what_is_left, "damage_primary_backup_double"),
    (take_what_is_left, "damage_quorum"),
    (trust_only_the_recovery_point, "damage_isr_not_synced"),
    (note_nothing, "damage_isr_killed_before_it_was_told"),
    (come_in_before_it_is_told, "damage_isr_comes_back_to_nobody"),
    (vote_with_what_is_left, "damage_quorum"),
    (take_a_missing_directory_for_a_deleted_topic, "damage_isr_directory_removed"),
    (take_every_cut_for_damage, "damage_isr_torn_write"),
    (count_a_damaged_controller, "controllers_voter_is_damaged"),
]


@pytest.mark.parametrize(
    ("mutation", "story"), MUTATIONS, ids=[f"{each[0].__name__}-{each[1]}" for each in MUTATIONS]
)
def test_a_story_notices(mutation: Patch, story: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(story)
    mutation(monkeypatch)
    with pytest.raises((StoryFailed, Violation, InvariantViolation)):
        tell(story)
