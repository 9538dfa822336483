"""What the lab sets is what the broker sees."""

from pathlib import Path

from tidelog.runtime.hooks.control import Control, Trouble


def test_a_change_is_seen_by_the_other_side_at_once(tmp_path: Path) -> None:
    with Control.create(tmp_path) as lab, Control(tmp_path) as broker:
        assert broker.trouble == Trouble()
        lab.change(write_ms=2.5, clock_ms=-7)
        assert broker.trouble == Trouble(write_ms=2.5, clock_ms=-7)
        lab.change(write_ms=0)
        assert broker.trouble == Trouble(clock_ms=-7)


def test_trouble_outlives_the_lab_that_made_it(tmp_path: Path) -> None:
    with Control.create(tmp_path) as first:
        first.change(is_full=1)
    with Control.create(tmp_path) as second:
        assert second.trouble.is_full
