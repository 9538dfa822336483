"""Several rounds in one: the worst and the median of every figure, each by itself."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidelog.lab.account import EXAMPLES_MAX
from tidelog.lab.results import Figures, Latency

MORE_IS_BETTER = frozenset({"acknowledged", "received", "records_per_s"})


def worst(rounds: Sequence[Figures]) -> Figures:
    """What no round was worse than; examples are those of all rounds."""

    def one(name: str, values: Sequence[Any]) -> Any:
        return min(values) if name in MORE_IS_BETTER else max(values)

    return _together(rounds, one)


def median(rounds: Sequence[Figures]) -> Figures:
    """The lower one of two in the middle, so that counts stay counts."""
    return _together(rounds, lambda _, values: statistics.median_low(values))


def _together(rounds: Sequence[Figures], one: Callable[[str, Sequence[Any]], Any]) -> Figures:
    if not rounds:
        return Figures()
    found: dict[str, Any] = {}
    for name in Figures.__struct_fields__:
        values = [getattr(figures, name) for figures in rounds]
        if name == "examples":
            found[name] = tuple(example for each in values for example in each)[:EXAMPLES_MAX]
        elif name == "harmed":
            found[name] = tuple(sorted({partition for each in values for partition in each}))
        elif isinstance(values[0], Latency):
            found[name] = _latency(values, one)
        else:
            found[name] = _known(name, values, one)
    return msgspec.convert(found, Figures)


def _latency(values: Sequence[Latency], one: Callable[[str, Sequence[Any]], Any]) -> Latency:
    names = Latency.__struct_fields__
    return Latency(**{name: _known(name, [getattr(each, name) for each in values], one) for name in names})


def _known(name: str, values: Sequence[Any], one: Callable[[str, Sequence[Any]], Any]) -> Any:
    """Of those rounds that have the figure; None if none has."""
    there = [value for value in values if value is not None]
    return one(name, there) if there else None
