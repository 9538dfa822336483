"""Logs that are cut behind damage: each mutation takes a rule out, and a story notices."""

from collections.abc import Callable

import pytest

from tidelog.errors import InvariantViolation
from tidelog.log.durability import Durability
from tidelog.log.scan import BrokenChain
from tidelog.log.segment import Segment
from tidelog.replication.damage import Damage
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import damaged_cuts
from tidelog.sim.telling import StoryFailed

Patch = Callable[[pytest.MonkeyPatch], None]


def drop_what_is_damaged_without_a_word(patch: pytest.MonkeyPatch) -> None:
    """As it was: damaged batches are taken for ones that were to be cut off."""
    strict = Segment.place_of_cut

    def place_of_cut(self: Segment, offset: int) -> tuple[int, int]:
        try:
            return strict(self, offset)
        except BrokenChain as error:
            return error.position, error.offset

    patch.setattr(Segment, "place_of_cut", place_of_cut)


def fail_until_the_next_start(patch: pytest.MonkeyPatch) -> None:
    """As it was: a log that cannot be cut has failed, and nobody repairs it."""
    patch.setattr(Damage, "found", lambda self, offset, reason: None)


def refuse_writes_when_it_is_repaired(patch: pytest.MonkeyPatch) -> None:
    """What was damaged is gone, and the log is still refused."""
    patch.setattr(Durability, "mended", lambda self: None)


@pytest.mark.parametrize(
    "mutation",
    [drop_what_is_damaged_without_a_word, fail_until_the_next_start, refuse_writes_when_it_is_repaired],
)
def test_mutation_is_noticed(mutation: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises((Violation, StoryFailed, InvariantViolation)):
        damaged_cuts.isr_found_by_a_cut()
