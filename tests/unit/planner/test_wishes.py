"""Wishes about latency and throughput."""

from tidelog.planner.costs import Figures, Predicted, predict
from tidelog.planner.needs import Needs, search
from tidelog.planner.promises import Terms
from tidelog.planner.wishes import Wishes, fast_enough

FIGURES = Figures((0.5,) * 101, (0.0,) * 101, (0.2,) * 101, (1.0,) * 101, 0.002, 0.001, 0.002, 1.8, 0.0, 0.02)
NEEDS = Needs(3, writes=1, data=1)
"""Three settings satisfy them: isr 0.7 ms and 600 MB/s, flushed isr and quorum 2.7 ms and 50 MB/s."""


def predicted(terms: Terms) -> Predicted:
    return predict(terms, [FIGURES], 3, 2)


def test_what_is_too_slow_is_rejected_with_the_figure() -> None:
    found = fast_enough(search(NEEDS), Wishes(p99_ms=1.0), predicted)
    assert [(each.terms.mode, each.terms.synced) for each in found.candidates] == [("isr", False)]
    [reason] = [each.reason for each in found.rejected if each.family == "quorum"]
    assert reason.endswith("a p99 of 2.70 ms is predicted (1 ms asked for).")


def test_throughput() -> None:
    found = fast_enough(search(NEEDS), Wishes(mb_per_s=100), predicted)
    assert [(each.terms.mode, each.terms.synced) for each in found.candidates] == [("isr", False)]
    assert any("50 MB/s are predicted (100 asked for)" in each.reason for each in found.rejected)


def test_the_smallest_wish_to_give_up() -> None:
    found = fast_enough(search(NEEDS), Wishes(p99_ms=0.6, mb_per_s=100), predicted)
    assert not found.candidates
    assert found.give_up == ("--p99-ms 0.70 instead of 0.6",)
    both = fast_enough(search(NEEDS._replace(power=True)), Wishes(p99_ms=3, mb_per_s=100), predicted)
    assert both.give_up == ("--mb-per-s 50 instead of 100",)


def test_without_wishes_nothing_changes() -> None:
    assert fast_enough(search(NEEDS), Wishes(), predicted) == search(NEEDS)
