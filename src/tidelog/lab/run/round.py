"""One round: load until it is steady, the timeline of faults, healing, full redundancy, the end of the load.

Owns the order of these things and the clock of the round. Whatever happens, what was broken is healed and the
load is ended.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tidelog.lab.experiment.model import Experiment
from tidelog.lab.experiment.modes import heading
from tidelog.lab.experiment.parties import Casting, NoSuchParty
from tidelog.lab.faults.catalog import FAULTS
from tidelog.lab.faults.injected import Injected
from tidelog.lab.faults.parties import Parties
from tidelog.lab.history import now_us
from tidelog.lab.promise import RECOVERY_S, Hit
from tidelog.lab.results import Band
from tidelog.lab.run.lateness import Lateness
from tidelog.lab.run.ports import Parts, Windows, Workload, WorkloadPlan
from tidelog.lab.run.schedule import Action, actions, hit_of, longest_pause_s, parties_of
from tidelog.lab.run.topics import Topics
from tidelog.lab.run.watch import Watcher
from tidelog.lab.targets.base import Target, pids_of

STEADY_S = 60.0
REDUNDANT_S = 45.0
READ_BACK_S = 30.0
ROLE_S = 15.0  # how long a step waits for its leader or controller to be there
TICK_S = 0.1

Tell = Callable[[str, Mapping[str, int], Mapping[str, int]], None]
"""Stage, acknowledged by topic, leader by topic."""


class Struck(NamedTuple):
    """A fault as it was made."""

    step: int
    band: Band
    hits: dict[str, list[Hit]]  # by topic and partition


class RoundRecord(NamedTuple):
    """What happened in a round, besides what the histories say."""

    struck: tuple[Struck, ...]
    windows: Windows
    is_redundant: bool
    silent: frozenset[str] = frozenset()  # topics with partitions whose writes did not come back
    late_s: float = 0.0  # how much later than asked for the machine did something at worst
    ended: tuple[int, ...] = ()  # brokers that ended by themselves

    def hits(self, topic: str, partition: int) -> list[Hit]:
        return [
            each.hits[topic][partition]._replace(start_s=each.band.start_s, end_s=each.band.end_s)
            for each in self.struck
        ]

    @property
    def bands(self) -> tuple[Band, ...]:
        return tuple(each.band for each in self.struck)


class RoundPlayer:
    def __init__(
        self,
        target: Target,
        experiment: Experiment,
        topics: Topics,
        parts: Parts,
        directory: Path,
        tell: Tell,
    ) -> None:
        """``experiment`` with the names that its topics and groups have in this round."""
        self._target, self._experiment, self._topics = target, experiment, topics
        self._tell_stage = tell
        self._names = [topic.name for topic in experiment.topics]
        self._workload: Workload = parts.make_workload(self._plan(directory))
        self._watcher = Watcher(target, self._names, self._workload.sample_leader)
        self._lateness = Lateness(directory)
        self._stage = "start of the load"
        self._steady = 0.0  # by the steady clock
        self._active: dict[int, Injected] = {}  # by step
        self._struck: dict[int, Struck] = {}

    def play(self) -> RoundRecord:
        experiment = self._experiment
        try:
            self._tell()
            self._workload.start()
            self._watcher.start()
            self._workload.wait_steady(STEADY_S)
            self._lateness.start()
            steady_us, self._steady = now_us(), time.monotonic()
            self._wait_until(experiment.before, "before the fault")
            start_us = now_us()
            for action in actions(experiment):
                self._wait_until(experiment.before + action.at, self._now_active())
                if not action.heals:
                    self._await_votes()
                self._act(action)
            end_us = now_us()
            is_redundant = self._await_redundancy()
            self._wait_until(experiment.before + experiment.lasts, self._now_active())
            silent = self._await_writes()
            self._wait(experiment.after, "after the fault")
            windows = Windows(steady_us, start_us, end_us, now_us())
            ended = self._target.ended()  # All faults are healed: every broker should run.
            self._stage = "reading everything back"
            self._tell()
            self._lateness.stop()
            self._watcher.stop()  # the histories are closed next
            self._workload.finish(READ_BACK_S)
        finally:
            self._end()
        struck = tuple(self._struck[number] for number in sorted(self._struck))
        return RoundRecord(struck, windows, is_redundant, silent, self._lateness.worst_s, ended)

    def _plan(self, directory: Path) -> WorkloadPlan:
        experiment = self._experiment
        return WorkloadPlan(
            self._target.bootstrap,
            experiment.topics,
            experiment.loads,
            experiment.consumers,
            directory,
            directory.name,
            {topic.name: heading(topic) for topic in experiment.topics},
            lambda: pids_of(self._target),
        )

    # --- faults ---------------------------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        if not action.heals:
            self._inject(action.step)
        elif action.step in self._active:
            self._heal(action.step)

    def _inject(self, number: int) -> None:
        step = self._experiment.timeline[number]
        topic = step.topic or self._names[0]
        first, second, words = self._parties(number, topic)
        leaders = self._leaders()
        hits = {
            name: [hit_of(step, first, second, leader) for leader in leaders.get(name, [])]
            for name in self._names
        }
        start = self._now()
        # The history says when it began: before the first effect, not after the last.
        self._workload.mark("fault", f"{step.fault} of {words}")
        fault = self._target.inject(step.fault, Parties(first, second, topic), step.parameters)
        band = Band(name=f"{fault.name} ({words})", start_s=start, end_s=self._now())
        self._struck[number] = Struck(number, band, hits)
        if FAULTS[step.fault].is_momentary:
            self._workload.mark("healed", band.name)
        else:
            self._active[number] = fault

    def _heal(self, number: int) -> None:
        fault = self._active.pop(number)
        fault.heal()
        struck = self._struck[number]
        self._struck[number] = struck._replace(band=_ended(struck.band, self._now()))
        self._workload.mark("healed", struck.band.name)

    def _parties(self, number: int, topic: str) -> tuple[tuple[int | str, ...], tuple[int | str, ...], str]:
        """Who is meant now; waits a little for a leader while there is none."""
        step = self._experiment.timeline[number]
        deadline = time.monotonic() + ROLE_S
        while True:
            try:
                now = self._casting(topic)
                first, second = parties_of(step, now)
                words = " and ".join(step.between) if step.between is not None else step.on
                return first, second, words
            except (NoSuchParty, OSError) as error:
                if time.monotonic() > deadline:
                    raise NoSuchParty(str(error)) from error
                time.sleep(TICK_S)

    def _casting(self, topic: str) -> Casting:
        part = self._target.view(topic).topics[topic][0]
        followers = tuple(each for each in part.replicas if each != part.leader)
        return Casting(
            self._target.brokers, part.leader, followers, self._target.controller(), self._target.voters
        )

    def _leaders(self) -> dict[str, list[int]]:
        try:
            return self._topics.leaders()
        except OSError:  # no broker answers while all are down
            return {spec.name: [-1] * spec.partitions for spec in self._experiment.topics}

    # --- time -----------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return round(time.monotonic() - self._steady, 3)

    def _wait_until(self, at: float, stage: str) -> None:
        self._wait(at - self._now(), stage)

    def _wait(self, seconds: float, stage: str) -> None:
        deadline = time.monotonic() + seconds
        self._stage = stage
        while (left := deadline - time.monotonic()) > 0:
            self._tell()
            time.sleep(min(left, TICK_S))

    def _await_votes(self) -> None:
        """A controller that lost its disk votes again when it has caught up. Until then, the next fault could
        take the majority.
        """
        deadline = time.monotonic() + REDUNDANT_S
        while not self._target.votes_again() and time.monotonic() < deadline:
            self._stage = "until the controllers vote again"
            self._tell()
            time.sleep(TICK_S)

    def _await_redundancy(self) -> bool:
        deadline = time.monotonic() + REDUNDANT_S
        self._stage = "until all replicas are in sync"
        while time.monotonic() < deadline:
            if self._topics.is_in_sync() and self._target.votes_again():
                self._workload.mark("redundant", "all replicas in sync")
                return True
            self._tell()
            time.sleep(TICK_S)
        return False

    def _await_writes(self) -> frozenset[str]:
        """Until every partition with a load has acknowledged another write; the topics of those that do
        not.
        """
        before = self._by_partition()
        pending = set(before)
        deadline = time.monotonic() + RECOVERY_S + longest_pause_s(self._experiment)
        self._stage = "until writes go on"
        while pending and time.monotonic() < deadline:
            now = self._by_partition()
            pending = {each for each in pending if now[each] == before[each]}
            self._tell()
            time.sleep(TICK_S)
        return frozenset(topic for topic, _ in pending)

    def _by_partition(self) -> dict[tuple[str, int], int]:
        return {
            (topic, partition): count
            for topic, counts in self._workload.acknowledged_by_partition().items()
            for partition, count in counts.items()
        }

    def _now_active(self) -> str:
        names = [self._struck[number].band.name for number in self._active]
        return ", ".join(names) or "between faults"

    def _tell(self) -> None:
        self._tell_stage(self._stage, self._workload.acknowledged(), self._watcher.leaders)

    def _end(self) -> None:
        self._lateness.stop()
        self._watcher.stop()
        for fault in self._active.values():
            with contextlib.suppress(Exception):  # the first error is the one that counts
                fault.heal()
        self._workload.close()


def _ended(band: Band, at: float) -> Band:
    return Band(name=band.name, start_s=band.start_s, end_s=at)
