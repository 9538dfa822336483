"""What readers get of replicas that have been away: each mutation takes one rule out, and a story notices."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from tidelog.broker.handlers import list_offsets
from tidelog.broker.partitions import assigning
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.table import PartitionTable
from tidelog.errors import InvariantViolation, OffsetOutOfRange
from tidelog.log.shortening import Shortening
from tidelog.replication.attachments.successors import NoSuccessors
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.fetching import FetchLoop
from tidelog.replication.watermark import Watermark
from tidelog.sim.checkers import Violation
from tidelog.sim.checkers.watermarks import ANYWHERE, Watermarks
from tidelog.sim.stories import readers as stories
from tidelog.sim.telling import StoryFailed, Telling
from tidelog.types import NO_BROKER

Patch = Callable[[pytest.MonkeyPatch], None]


def believe_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """Whatever lies below the checkpointed watermark is what was committed, power failure or not."""
    patch.setattr(Watermark, "readable_end_offset", lambda self, start_offset: self.offset)


def hear_of_news_only(patch: pytest.MonkeyPatch) -> None:
    """A follower that has everything is not told that its leader agrees."""
    patch.setattr(FetchLoop, "_agree", lambda self, generation: None)


def hear_of_settings_first(patch: pytest.MonkeyPatch) -> None:
    """A leader whose time is over acts on settings that came later. Without the rule for leaders that remain:
    it would keep a lower minimum from this one, too.
    """
    patch.setattr(PartitionTable, "_end_role", lambda self, mine, partition: None)
    patch.setattr(PartitionTable, "_safe_limits", lambda self, mine, *about: self._limits(*about))


def commit_before_the_beginning(patch: pytest.MonkeyPatch) -> None:
    """The watermark moves, and then the beginning."""
    advance, take = ReplicaDriver._advance_start, ReplicaDriver.take

    def take_first(self: ReplicaDriver, epoch: int, records: Any, watermark: int, start_offset: int) -> None:
        take(self, epoch, records, watermark, start_offset)
        advance(self, watermark, start_offset)

    patch.setattr(ReplicaDriver, "_advance_start", lambda self, watermark, start_offset: None)
    patch.setattr(ReplicaDriver, "take", take_first)


def acknowledge_a_beginning_that_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """A log that was begun anew, and is empty, has nothing that a power failure could take."""
    restart_at = Shortening.restart_at

    def restart(self: Shortening, offset: int) -> None:
        restart_at(self, offset)
        self._durability.synced_end_offset = self._durability.recovery_point = offset

    patch.setattr(Shortening, "restart_at", restart)


def bind_who_has_not_heard(patch: pytest.MonkeyPatch) -> None:
    """What a process tells of records that were given up binds it, though it cannot know."""
    told = Watermarks.told

    def bound(
        self: Watermarks, process: Any, broker: int, watermark: int, stable: int, binding_end: int = ANYWHERE
    ) -> None:
        told(self, process, broker, watermark, stable, ANYWHERE)

    patch.setattr(Watermarks, "told", bound)


def believe_settings_that_may_be_old(patch: pytest.MonkeyPatch) -> None:
    """A backup whose primary has ended knows how many copies the primary required."""
    patch.setattr(assigning, "acting_leader", lambda partition: NO_BROKER)


def know_every_position(patch: pytest.MonkeyPatch) -> None:
    """What is beyond the end of any log does not exist."""

    def check_position(self: Partition, offset: int, *, confirmed: bool = False) -> None:
        if offset > self.log.end_offset and not self.stands_in:
            raise OffsetOutOfRange("outside of the log")

    patch.setattr(Partition, "check_position", check_position)


def no_session_is_needed_to_pause(patch: pytest.MonkeyPatch) -> None:
    """A primary is certain to lead, also when it has paused for a change of the mode."""
    certain = cast(property, Partition.leads_for_certain).fget
    assert certain is not None

    def leads_for_certain(self: Partition) -> Any:
        return not self.driver.successors.may_be or certain(self)

    patch.setattr(Partition, "leads_for_certain", property(leads_for_certain))


def tell_the_end_without_asking(patch: pytest.MonkeyPatch) -> None:
    """A leader with a session knows where the log ends."""
    patch.setattr(list_offsets.LookUp, "_must_confirm", lambda self, partition: False)


def followers_know_of_the_end_of_a_seal(patch: pytest.MonkeyPatch) -> None:
    """In a mode without successors, no follower has to confirm a paused primary."""

    def when_certain(self: Partition, then: Callable[[bool], None]) -> None:
        NoSuccessors.when_all_follow(self.driver.successors, then)

    patch.setattr(Partition, "when_certain", when_certain)


def know_every_epoch(patch: pytest.MonkeyPatch) -> None:
    """Records of later epochs do not exist."""
    patch.setattr(Partition, "check_later_epoch", lambda self, epoch, *, confirmed=False: None)


def trust_voters_that_were_silent(patch: pytest.MonkeyPatch) -> None:
    """A leader that was elected knows of its end by its election alone."""
    patch.setattr(Elected, "may_be_replaced", False)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (believe_the_checkpoint, stories.cut_tail_comes_back),
        (hear_of_news_only, stories.quiet_partition),
        (hear_of_settings_first, stories.settings_from_after_its_time),
        (commit_before_the_beginning, stories.given_up_before_the_beginning),
        (acknowledge_a_beginning_that_is_not_synced, stories.deleted_while_it_was_away),
        (bind_who_has_not_heard, stories.told_before_it_heard_of_a_loss),
        (believe_settings_that_may_be_old, stories.settings_that_a_backup_has_not_heard_of),
        (know_every_position, stories.replaced_leader_lacks_what_was_read),
        (know_every_position, stories.emptied_follower_lacks_what_was_read),
        (trust_voters_that_were_silent, stories.thawed_voter_lacks_what_was_read),
        (no_session_is_needed_to_pause, stories.primary_that_is_no_leader_any_more),
        (know_every_epoch, stories.replaced_leader_lacks_an_epoch),
        (tell_the_end_without_asking, stories.replaced_leader_lacks_what_was_read),
        (followers_know_of_the_end_of_a_seal, stories.primary_that_is_no_leader_any_more),
    ],
)
def test_a_story_notices(mutate: Patch, told: Callable[[], Telling], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation, InvariantViolation)):
        told()
