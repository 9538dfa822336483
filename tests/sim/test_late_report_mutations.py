"""Reports of damage that come twice: each mutation takes one rule out, and a story notices."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tidelog.controller import logs
from tidelog.errors import InvariantViolation
from tidelog.log.damage import DamageMark
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import late_reports
from tidelog.sim.telling import StoryFailed


def take_every_report(patch: pytest.MonkeyPatch) -> None:
    """A report of damage is news, whatever became of the partition since."""
    patch.setattr(logs, "outdated", lambda *args: set())


def keep_the_note(patch: pytest.MonkeyPatch) -> None:
    """The note of a damage that is known is removed, but a power failure may bring it back."""

    def clear(self: DamageMark) -> None:
        if self.reason:
            self.reason = ""
            self._storage.remove(self._path)

    patch.setattr(DamageMark, "clear", clear)


class Mutation(NamedTuple):
    patch: Callable[[pytest.MonkeyPatch], None]
    story: Callable[[], object]


MUTATIONS = (
    Mutation(take_every_report, late_reports.copy_arrives_after_the_decision),
    Mutation(keep_the_note, late_reports.power_fails_after_the_decision),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.patch.__name__)
def test_mutation_is_noticed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.patch(monkeypatch)
    with pytest.raises((Violation, StoryFailed, InvariantViolation)):
        mutation.story()
