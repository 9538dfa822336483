"""The checker of offsets that are sent as part of transactions."""

import pytest

from tidelog.sim.checkers import Violation
from tidelog.sim.checkers.sent_offsets import NOTHING, SentOffsets


@pytest.fixture
def offsets() -> SentOffsets:
    offsets = SentOffsets("x")
    for _ in range(5):
        offsets.next()
    return offsets


def test_nothing_counts_at_first(offsets: SentOffsets) -> None:
    offsets.found(NOTHING)
    with pytest.raises(Violation, match="offset 0 counts"):
        offsets.found(0)


def test_the_last_one_that_was_committed_counts(offsets: SentOffsets) -> None:
    offsets.committing(1)
    offsets.committed(1)
    offsets.found(1)
    with pytest.raises(Violation, match="offset 0 counts"):
        offsets.found(0)


def test_nobody_knows_of_one_whose_end_was_not_told(offsets: SentOffsets) -> None:
    offsets.committing(1)
    offsets.committed(1)
    offsets.committing(3)
    offsets.found(1)
    with pytest.raises(Violation, match="offset 3 counts"):
        offsets.found(3)


def test_what_was_found_must_not_be_committed_afterwards(offsets: SentOffsets) -> None:
    offsets.committing(2)
    offsets.found(NOTHING)
    with pytest.raises(Violation, match="offset 2 was committed"):
        offsets.committed(2)


def test_an_answer_that_comes_late(offsets: SentOffsets) -> None:
    offsets.committing(2)
    offsets.found(2)
    offsets.committed(2)
    offsets.committing(offsets.next())
    offsets.committed(5)
    offsets.found(5)
