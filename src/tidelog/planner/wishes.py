"""Wishes about latency and throughput: which of the settings that satisfy the needs are fast enough."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.planner.costs import Predicted
from tidelog.planner.needs import Candidate, Found, Rejected, in_words
from tidelog.planner.promises import Terms


class Wishes(NamedTuple):
    p99_ms: float = 0.0  # of a lone write, at most; 0: none
    mb_per_s: float = 0.0  # with a machine for every broker, at least; 0: none


Prediction = Callable[[Terms], Predicted]


def fast_enough(found: Found, wishes: Wishes, predicted: Prediction) -> Found:
    """Without those that are too slow. If none is left: the smallest wish to give up."""
    good = tuple(each for each in found.candidates if not too_slow(each, wishes, predicted))
    families = dict.fromkeys(each.family for each in found.candidates)
    slow = tuple(
        Rejected(
            family,
            _reason(next(each for each in found.candidates if each.family == family), wishes, predicted),
        )
        for family in families
        if all(each.family != family for each in good)
    )
    rejected = (*found.rejected, *slow)
    give_up = found.give_up if good or not found.candidates else tuple(_weaker(found, wishes, predicted))
    return Found(good, rejected, give_up)


def too_slow(candidate: Candidate, wishes: Wishes, predicted: Prediction) -> bool:
    said = predicted(candidate.terms)
    return (wishes.p99_ms > 0 and said.p99_ms.middle > wishes.p99_ms) or (
        said.mb_per_s_apart.middle < wishes.mb_per_s
    )


def _reason(candidate: Candidate, wishes: Wishes, predicted: Prediction) -> str:
    said = predicted(candidate.terms)
    if wishes.p99_ms and said.p99_ms.middle > wishes.p99_ms:
        what = f"a p99 of {said.p99_ms.middle:.2f} ms is predicted ({wishes.p99_ms:g} ms asked for)"
    else:
        what = f"{said.mb_per_s_apart.middle:.0f} MB/s are predicted ({wishes.mb_per_s:g} asked for)"
    return f"{in_words(candidate.terms)}: {what}."


def _weaker(found: Found, wishes: Wishes, predicted: Prediction) -> list[str]:
    """Each alone is enough: the best that settings reach which satisfy the other wish."""
    said = [predicted(each.terms) for each in found.candidates]
    fast = [each.p99_ms.middle for each in said if each.mb_per_s_apart.middle >= wishes.mb_per_s]
    wide = [
        each.mb_per_s_apart.middle for each in said if each.p99_ms.middle <= (wishes.p99_ms or float("inf"))
    ]
    words = []
    if fast and wishes.p99_ms:
        words.append(f"--p99-ms {min(fast):.2f} instead of {wishes.p99_ms:g}")
    if wide and wishes.mb_per_s:
        words.append(f"--mb-per-s {max(wide):.0f} instead of {wishes.mb_per_s:g}")
    return words
