"""A disk with a damaged id, and a power failure after that: each mutation lets the controllers trust its
broker, and the checkers notice when it is let in.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.controller import brokers
from tidelog.sim.checkers import Violation
from tidelog.sim.stories import renamed_disks
from tidelog.sim.stories.renamed_disks import RenamedDisk

register = brokers.register


def trust_other_disks(patch: pytest.MonkeyPatch) -> None:
    """A disk with another id is taken for the one that was there before."""

    def registered(*args: Any, **named: Any) -> Any:
        return register(*args, **named | {"empty": False})

    patch.setattr(brokers, "register", registered)


def trust_after_power_failures(patch: pytest.MonkeyPatch) -> None:
    """A power failure takes nothing."""

    def registered(*args: Any, **named: Any) -> Any:
        return register(*args, **named | {"forgot": False})

    patch.setattr(brokers, "register", registered)


@pytest.mark.parametrize(
    ("mutation", "story"),
    [
        (trust_other_disks, renamed_disks.readmitted_and_synced),
        (trust_after_power_failures, renamed_disks.readmitted_and_not_synced),
    ],
    ids=lambda each: each.__name__,
)
def test_the_checkers_notice(
    mutation: Callable[[pytest.MonkeyPatch], None],
    story: Callable[[], RenamedDisk],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mutation(monkeypatch)
    with pytest.raises(Violation, match="lost power and is trusted on"):
        story()
