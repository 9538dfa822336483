"""Points where the code under test is deliberately unlucky, as the seed says.

``services.perturb(name)`` is a constant False in production; here it returns True now and then, at the points
that the plan of a run has turned on. :data:`POINTS` describes every point; an unknown name is a defect.
"""

import random
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.invariant import invariant


class Point(NamedTuple):
    what: str
    probability: float = 0.05  # for each call


POINTS: dict[str, Point] = {
    "late tick": Point("a node's clock is late by half a second"),
    "controller looks away": Point("the active controller notices a dead broker later"),
    "late heartbeat": Point("a sign of life to the controllers is late", 0.1),
    "proposal skipped": Point("a leader reports another in-sync set only the next time", 0.3),
    "proposal doubled": Point("a leader tells them twice", 0.3),
    "early snapshot": Point("a node writes a snapshot of the metadata though it is not time", 0.2),
    "early chore": Point("retention, checkpoints, flushes or compaction come at once again"),
    "late hand-over": Point("a leader that hands over sleeps on it", 0.2),
    "late markers": Point("the end of a transaction reaches partitions later", 0.2),
    "late coordinator": Point("a coordinator that has read its log takes a while longer", 0.5),
    "late sync": Point("a sync begins 30 ms later, and more is written meanwhile", 0.1),
    "short fetches": Point("a follower asks for one batch at a time", 0.5),
    "tail ask skipped": Point("a primary that gathers what backups hold asks later", 0.3),
    "late seal": Point("a mode change is told to the controllers later", 0.3),
    "slow checkpoint": Point("the offsets of logs are captured one log at a time, with pauses", 0.5),
}


class Perturbations:
    def __init__(self, seed: int, points: Iterable[str]) -> None:
        self._chance = random.Random(f"perturbations {seed}")
        self._points = frozenset(points)
        unknown = self._points - POINTS.keys()
        invariant(not unknown, "a perturbation point that is not listed", unknown)
        self.active = False  # only in the phase with faults
        self.struck: dict[str, int] = {}

    def strike(self, name: str) -> bool:
        if name not in self._points:
            if name not in POINTS:
                invariant(False, "a perturbation point that is not listed", name)
            return False
        if not self.active or self._chance.random() >= POINTS[name].probability:
            return False
        self.struck[name] = self.struck.get(name, 0) + 1
        return True
