"""Which losses the controllers must have acted on when they know that a node lost power."""

from uuid import UUID

import pytest

from tidelog.sim.checkers.promises.losses import NOTHING_LOST, Losses
from tidelog.sim.checkers.promises.place import Key

KEY: Key = (UUID(int=1), 0)


@pytest.fixture
def losses() -> Losses:
    return Losses()


def test_what_was_not_synced_counts_when_it_is_reported(losses: Losses) -> None:
    losses.note(KEY, 3, 4, for_good=False)
    assert losses.confessed(KEY, 3, synced=False)
    assert not losses.confessed(KEY, 3, synced=False)


def test_a_power_failure_of_a_synced_replica_does_not_count(losses: Losses) -> None:
    losses.note(KEY, 3, NOTHING_LOST, for_good=False)
    assert not losses.confessed(KEY, 3, synced=False)


def test_a_loss_from_before_a_confirmation_is_not_in_the_next_report(losses: Losses) -> None:
    losses.note(KEY, 3, 4, for_good=False)
    losses.confirmed(KEY, 3)
    losses.note(KEY, 3, NOTHING_LOST, for_good=False)
    # The topic does not ask for syncs any more when the report is known.
    assert not losses.confessed(KEY, 3, synced=False)


def test_a_loss_after_a_confirmation_counts(losses: Losses) -> None:
    losses.confirmed(KEY, 3)
    losses.note(KEY, 3, 4, for_good=False)
    assert losses.confessed(KEY, 3, synced=False)


def test_a_confirmation_brings_no_lost_disk_back(losses: Losses) -> None:
    losses.note(KEY, 3, 0, for_good=True)
    losses.confirmed(KEY, 3)
    assert losses.confessed(KEY, 3, synced=True)


def test_a_lie_about_syncs_is_more_than_a_lost_tail(losses: Losses) -> None:
    """Although the controllers need not know of it: the node may notice."""
    losses.note(KEY, 1, 4, for_good=False)
    losses.note(KEY, 2, 4, for_good=False, lied=True)
    losses.note(KEY, 3, 4, for_good=True)
    assert losses.more_than_tails(KEY) == {2, 3}
    losses.healed(KEY, 2)
    losses.note(KEY, 2, 6, for_good=False)
    assert losses.more_than_tails(KEY) == {3}
