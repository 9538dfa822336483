"""Readers while a majority of the controllers has ended: each mutation takes one rule out, and a story
notices.
"""

from collections.abc import Callable

import pytest

from tidelog.broker.node.sightings import Sightings
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.table import PartitionTable
from tidelog.controller.successions import BY_MODE, steps
from tidelog.replication.attachments.stand_in import AnyMember
from tidelog.replication.replica import NO_LIMIT
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import undecided as stories
from tidelog.sim.telling import StoryFailed, Telling

Patch = Callable[[pytest.MonkeyPatch], None]


def no_member_stands_in(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(BY_MODE, "isr", BY_MODE["isr"]._replace(stand_in=steps.no_stand_in))


def doubting_leaders_serve_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AnyMember, "serves", False)


def every_doubting_leader_serves(patch: pytest.MonkeyPatch) -> None:
    """Also one that only lost its connections, and may have a successor."""
    patch.setattr(PartitionTable, "is_stand_in", lambda self, partition: True)


def the_end_of_the_log_is_served(patch: pytest.MonkeyPatch) -> None:
    """Committed or not."""
    patch.setattr(Partition, "readable_end_offset", property(lambda self: self.log.end_offset))


def serve_what_was_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AnyMember, "is_outdated", False)


def only_the_present_counts(patch: pytest.MonkeyPatch) -> None:
    """What the controllers decided before they ended is forgotten."""
    known = Sightings.may_have_been_decided
    patch.setattr(Sightings, "may_have_been_decided", lambda self, since_ms: known(self, NO_LIMIT))


def they_may_decide_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sightings, "may_have_been_decided", lambda self, since_ms: True)


@pytest.mark.parametrize(
    ("mutate", "told"),
    [
        (no_member_stands_in, stories.leader_ended),
        (doubting_leaders_serve_nobody, stories.leader_left_alone),
        (every_doubting_leader_serves, stories.leader_cut_off),
        (the_end_of_the_log_is_served, stories.leader_left_alone),
        (serve_what_was_given_up, stories.records_given_up),
        (only_the_present_counts, stories.decided_before_they_ended),
        (they_may_decide_for_ever, stories.ended_before_they_could_decide),
    ],
)
def test_a_story_notices(mutate: Patch, told: Callable[[], Telling], monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch)
    with pytest.raises((StoryFailed, Violation)):
        told()
