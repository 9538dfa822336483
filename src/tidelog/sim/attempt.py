"""One run whose failure is a result: the faults, and their consequences.

An :class:`Outcome` is plain data, so that it can come from another process and be stored in a file.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tidelog.sim.checkers import batches
from tidelog.sim.collecting import collected_afterwards
from tidelog.sim.faults import MENDING
from tidelog.sim.run import prepare

TRACE_LINES = 40  # of a failed run
DECISIVE_LINES = 60  # of its trace that belong to the shortest story

_PLACE = re.compile(r"\b([a-z_]+\d*-\d+)\b")
_BRACKETS = re.compile(r"\[[^\]]*\]|\([^)]*\)")
_NUMBER = re.compile(r"-?\d+")
_ROUTINE = re.compile(r" watermark \d+$| at \d+ NONE$")  # lines that any healthy cluster has


class Outcome(NamedTuple):
    mode: str
    seed: int
    error: str = ""  # The violation, with its kind in front; empty: none.
    digest: str = ""  # of the whole trace, if there was no violation
    acknowledged: int = 0
    simulated_ms: float = 0.0
    faults: int = 0  # That occurred; repairs (a heal, a start) are not faults.
    drawn: int = 0  # faults that were drawn, done or not, repairs included
    told: tuple[str, ...] = ()  # every fault that was done, in words
    trace: tuple[str, ...] = ()  # its end
    decisive: tuple[str, ...] = ()  # lines of it about the partition that the failure names, or not routine

    @property
    def failed(self) -> bool:
        return bool(self.error)

    @property
    def kind(self) -> str:
        """The failure without what changes from run to run: names of partitions, numbers, lists."""
        first = self.error.partition("\n")[0]
        return _NUMBER.sub("#", _BRACKETS.sub("…", _PLACE.sub("#", first)))


def attempt(mode: str, seed: int, wanted: Mapping[str, Any], lines: int = TRACE_LINES) -> Outcome:
    """One seed of one mode; ``wanted`` fixes parts of the plan, ``lines`` is how much of the
    trace is kept.
    """
    with collected_afterwards():
        try:
            return _attempt(mode, seed, wanted, lines)
        finally:
            batches.forget_all()


def _attempt(mode: str, seed: int, wanted: Mapping[str, Any], lines: int) -> Outcome:
    simulation = prepare(mode, seed, wanted)
    world, nemesis = simulation.world, simulation.nemesis
    outcome = Outcome(mode, seed)
    try:
        result = simulation.run()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        trace = list(world.trace)
        outcome = outcome._replace(
            error=text, trace=_last(trace, lines), decisive=tuple(_decisive(text, trace))
        )
    else:
        outcome = outcome._replace(
            digest=result.digest, acknowledged=result.acknowledged, trace=_last(result.trace, lines)
        )
    return outcome._replace(
        simulated_ms=world.elapsed_ms,
        faults=sum(count for name, count in nemesis.struck.items() if name not in MENDING),
        drawn=nemesis.drawn,
        told=tuple(nemesis.told),
    )


def _last(trace: Sequence[str], lines: int) -> tuple[str, ...]:
    return tuple(trace[len(trace) - min(lines, len(trace)) :])


def _decisive(error: str, trace: list[str]) -> list[str]:
    found = _PLACE.search(error.partition("\n")[0])
    if found is None:
        lines = [line for line in trace if not _ROUTINE.search(line)]
    else:
        lines = [line for line in trace if f" {found[1]}:" in line]
    return lines[-DECISIVE_LINES:]
