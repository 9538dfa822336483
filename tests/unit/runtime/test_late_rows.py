"""When a connection is held because of responses that are worked out after a wait."""

from tidelog.runtime.late_rows import ROWS_MAX, LateRows


def test_it_is_held_once_when_there_are_too_many() -> None:
    rows = LateRows()
    assert not rows.add(ROWS_MAX)
    assert rows.add(1)
    assert not rows.add(ROWS_MAX), "it is held already"
    assert rows.made(ROWS_MAX) == 0
    assert rows.made(ROWS_MAX) == 1
    assert rows.made(1) == 0


def test_a_change_waits_for_the_last_row() -> None:
    rows = LateRows()
    assert not rows.must_precede_change()
    rows.add(1)
    rows.add(1)
    assert rows.must_precede_change()
    assert rows.made(1) == 0
    assert rows.made(1) == 1
    rows.add(1)
    assert rows.made(1) == 0, "the change has been let go"


def test_both_reasons_end_together() -> None:
    rows = LateRows()
    assert rows.add(ROWS_MAX + 1)
    assert rows.must_precede_change()
    assert rows.made(ROWS_MAX + 1) == 2
