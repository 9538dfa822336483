"""Worst and median, each figure by itself."""

from tidelog.lab.figures.rounds import median, worst
from tidelog.lab.results import Figures, Latency

ROUNDS = [
    Figures(acknowledged=100, lost=0, redundant_after_s=None, before=Latency(p99=5.0), examples=("a",)),
    Figures(acknowledged=90, lost=7, redundant_after_s=2.0, before=Latency(p99=9.0), examples=("b",)),
    Figures(acknowledged=95, lost=1, redundant_after_s=1.0, before=Latency()),
]


def test_worst() -> None:
    found = worst(ROUNDS)
    assert (found.acknowledged, found.lost, found.redundant_after_s) == (90, 7, 2.0)
    assert found.before == Latency(p99=9.0) and found.examples == ("a", "b")


def test_median() -> None:
    found = median(ROUNDS)
    assert (found.acknowledged, found.lost, found.redundant_after_s, found.before.p99) == (95, 1, 1.0, 5.0)


def test_of_no_round() -> None:
    assert worst([]) == median([]) == Figures()
