"""Disks that lose writes or put them elsewhere: each mutation takes a rule out, and a story notices."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tidelog.config.kinds import LONG_MAX
from tidelog.controller import leader_assignment
from tidelog.errors import InvariantViolation
from tidelog.log import damage, segment_check
from tidelog.log.offset_mark import DenseMark
from tidelog.replication.driver import ReplicaDriver
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import disks, misplaced_writes
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def take_gaps_for_compaction(patch: pytest.MonkeyPatch) -> None:
    """Offsets may be missing between two batches of any log."""
    patch.setattr(DenseMark, "dense_from", LONG_MAX)


def refuse_damaged_leaders(patch: pytest.MonkeyPatch) -> None:
    """A leader whose log is damaged lets nobody in."""

    def check(image: Any, partition: Any, proposal: Any) -> None:
        for member in proposal.members:
            problem = leader_assignment.why_ineligible(image, partition, proposal, member)
            if problem:
                raise leader_assignment._Ineligible(problem)

    patch.setattr(leader_assignment, "_check_members", check)


def cut_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """A log with damage before its start is cut at its start."""
    patch.setattr(ReplicaDriver, "restart_at", ReplicaDriver._truncate)


def take_any_cut_off_batch_for_a_torn_write(patch: pytest.MonkeyPatch) -> None:
    """The offset of the batch inside which a file ends is not looked at."""

    def is_torn(file: Any, position: int, end: int, may_follow: Any, *, preallocated: bool) -> bool:
        return damage.is_torn(file, position, end, lambda base_offset: True, preallocated=preallocated)

    patch.setattr(segment_check, "is_torn", is_torn)


class Mutation(NamedTuple):
    patch: Patch
    story: Callable[[], object]


MUTATIONS = (
    Mutation(take_gaps_for_compaction, disks.isr_misdirected_write),
    Mutation(refuse_damaged_leaders, disks.isr_damaged_last_member),
    Mutation(cut_at_the_start, disks.isr_lost_write_before_the_start),
    Mutation(take_any_cut_off_batch_for_a_torn_write, misplaced_writes.double_cut_off_by_the_end_of_the_file),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.patch.__name__)
def test_mutation_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    with pytest.raises((Violation, StoryFailed, InvariantViolation)):
        mutation.story()
